package noderuntime

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/internal/nodefs"
)

// Bounds of what is read of a process; Linux itself allows a few MiB.
const (
	maxCommandLine = 1 << 20
	maxEnviron     = 1 << 20
)

// process is one of those that have to do with a pull, and may be believed.
type process struct {
	pid     int
	name    string            // /proc/PID/comm
	args    []string          // its own name first; nil = they cannot be read
	environ map[string]string // nil = it cannot be read
	id      identity
}

// processes lists those with a name that is wanted in the network namespace of this
// process, and in the process namespace of process 1 where that can be read; the
// lowest number first. Any user may call a program containerd: see [identify].
func processes(tree fs.FS, wanted func(name string) bool) []process {
	entries, err := fs.ReadDir(tree, "proc")
	if err != nil {
		return nil
	}
	net, pidns := namespace(tree, "self", "net"), namespace(tree, "1", "pid")
	if net == "" {
		return nil
	}
	var out []process
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n <= 0 || !wanted(nameOf(tree, e.Name())) {
			continue
		}
		pid := e.Name()
		// The number may go to another process, and the process may run another program,
		// between two reads: what was read counts if the identity is the same after it.
		id, err := identify(tree, pid)
		if err != nil {
			continue
		}
		p := process{n, nameOf(tree, pid), args(tree, pid), environ(tree, pid), id}
		if !wanted(p.name) || namespace(tree, pid, "net") != net || pidns != "" && namespace(tree, pid, "pid") != pidns || !id.holds(tree, n) {
			continue
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b process) int { return cmp.Compare(a.pid, b.pid) })
	return out
}

// nameOf is the name of a process, "" if it cannot be read.
func nameOf(tree fs.FS, pid string) string {
	comm, err := readSmall(tree, "proc/"+pid+"/comm", 64)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(comm), "\n")
}

// args are those that a process was started with.
func args(tree fs.FS, pid string) []string {
	raw, err := readSmall(tree, "proc/"+pid+"/cmdline", maxCommandLine)
	if err != nil || len(raw) == 0 {
		return nil
	}
	return splitArgs(raw)
}

// environ is the environment that a process was started with, nil if it cannot be
// read.
func environ(tree fs.FS, pid string) map[string]string {
	raw, err := readSmall(tree, "proc/"+pid+"/environ", maxEnviron+1)
	if err != nil {
		return nil
	}
	return parseEnviron(raw)
}

// splitArgs reads /proc/PID/cmdline: arguments ended by NUL.
func splitArgs(raw []byte) []string {
	return strings.Split(string(bytes.TrimRight(raw, "\x00")), "\x00")
}

// flagOf returns the value of a flag in any of its forms, of several the first.
func flagOf(args []string, name string) (value string, ok bool) {
	for i, arg := range args {
		if i == 0 || !strings.HasPrefix(arg, "-") {
			continue
		}
		key, value, equals := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case key != name:
		case equals:
			return value, true
		case i+1 < len(args):
			return args[i+1], true
		}
	}
	return "", false
}

// OwnEnviron returns the environment of this process.
func OwnEnviron() map[string]string {
	return parse(os.Environ())
}

// parseEnviron reads what /proc/PID/environ holds. Of an environment over the
// bound the last entry is left out: half a value would be another value.
func parseEnviron(raw []byte) map[string]string {
	if len(raw) > maxEnviron {
		raw = raw[:bytes.LastIndexByte(raw, 0)+1]
	}
	return parse(strings.Split(string(raw), "\x00"))
}

// parse reads "name=value" entries. Of a name that stands there twice the first
// counts, as for getenv(3) and os.Getenv.
func parse(entries []string) map[string]string {
	env := map[string]string{}
	for _, entry := range entries {
		key, value, ok := strings.Cut(entry, "=")
		if _, twice := env[key]; ok && key != "" && !twice {
			env[key] = value
		}
	}
	return env
}

// readSmall reads at most limit bytes. Files of /proc have no size, so they are
// read to the end and not by their size.
func readSmall(tree fs.FS, name string, limit int64) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// identity tells a process from the next one with its number.
type identity struct {
	started string // field 22 of proc_pid_stat(5)
	program string // /proc/PID/exe
}

// identify returns the identity of a process that may say how this node pulls: its
// four user numbers are root's, or those of this process, as the user namespace of
// this process sees them, and nobody else can change the program that it runs, nor
// is it one that gets its rights from its file: `ln -s /usr/bin/sudo containerd`
// makes a process of root with a stranger's environment.
func identify(tree fs.FS, pid string) (identity, error) {
	id := identity{started: startTicks(tree, pid)}
	if id.started == "" {
		return identity{}, errors.New("when it was started cannot be read")
	}
	status, err := readSmall(tree, "proc/"+pid+"/status", 64<<10)
	if err != nil {
		return identity{}, err
	}
	if err := checkUsers(string(status)); err != nil {
		return identity{}, err
	}
	if id.program, err = fs.ReadLink(tree, "proc/"+pid+"/exe"); err != nil {
		return identity{}, err
	}
	return id, checkProgram(tree, pid, id.program)
}

// holds reports whether the process is still the same, and still may be believed.
func (id identity) holds(tree fs.FS, pid int) bool {
	now, err := identify(tree, strconv.Itoa(pid))
	return err == nil && now == id
}

// checkUsers reads the line "Uid:" of proc_pid_status(5): real, effective, saved
// and file system user. The name in the line before it is escaped by the kernel.
func checkUsers(status string) error {
	for line := range strings.Lines(status) {
		numbers, ok := strings.CutPrefix(line, "Uid:")
		if !ok {
			continue
		}
		users := strings.Fields(numbers)
		for _, u := range users {
			uid, err := strconv.Atoi(u)
			if err != nil || u != users[0] || !nodefs.Trusted(uid) {
				return fmt.Errorf("want a process of root, got one of the users %q", users)
			}
		}
		if len(users) == 4 {
			return nil
		}
	}
	return errors.New("want a line Uid: with four numbers")
}

// checkProgram returns an error where another user can change the program of a
// process, or could have started it with root's rights.
func checkProgram(tree fs.FS, pid, program string) error {
	name, ok := strings.CutPrefix(program, "/")
	if !ok {
		return fmt.Errorf("want the path of a program, got %q", program)
	}
	info, err := nodefs.Owned(tree, strings.TrimSuffix(name, " (deleted)")) // as the kernel marks it after an update
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A path of another mount namespace, or of a file that was replaced, says nothing;
	// the kernel's link does.
	if kernel, ok := tree.(interface {
		StatProgram(pid string) (fs.FileInfo, error)
	}); ok {
		if running, statErr := kernel.StatProgram(pid); statErr == nil {
			info, err = running, nil
		}
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return fmt.Errorf("%s: want a regular file without setuid and setgid, got %v", program, info.Mode())
	}
	return nodefs.Safe(program, info)
}

// ticks is USER_HZ, the unit of times in /proc/PID/stat, the same on every
// architecture that Go supports (sysconf(3), _SC_CLK_TCK).
const ticks = 100

// started returns when a process began, to a hundredth of a second, by the clock
// now; zero if it cannot be read. The time since boot is taken, and not btime of
// /proc/stat, which is in whole seconds.
func started(tree fs.FS, pid string, now time.Time) time.Time {
	uptime, err := readSmall(tree, "proc/uptime", 64)
	if err != nil {
		return time.Time{}
	}
	began, err1 := strconv.ParseInt(startTicks(tree, pid), 10, 64)
	up, err2 := strconv.ParseFloat(strings.SplitN(string(uptime)+" ", " ", 2)[0], 64)
	if err1 != nil || err2 != nil || began < 0 || up <= 0 || up > 1e9 || began > 1e11 {
		return time.Time{}
	}
	age := time.Duration(up*float64(time.Second)) - time.Duration(began)*(time.Second/ticks)
	return now.Add(-age)
}

// startTicks is field 22 of proc_pid_stat(5), "" if it cannot be read.
func startTicks(tree fs.FS, pid string) string {
	stat, err := readSmall(tree, "proc/"+pid+"/stat", 4096)
	if err != nil {
		return ""
	}
	// The name of the process, field 2, may hold blanks and parentheses.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const start = 22 - 3 // the first here is field 3
	if len(fields) <= start {
		return ""
	}
	return fields[start]
}

// build returns with which Go a process's program was built, its own version, and
// the GODEBUG defaults that its module's go line fills in; all "" if the program is
// not Go or cannot be read. The runtime's Go decides how large a ClientHello the
// node sends.
func build(tree fs.FS, pid string) (goVersion, version, godebug string) {
	f, err := tree.Open("proc/" + pid + "/exe")
	if err != nil {
		return "", "", ""
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok {
		return "", "", ""
	}
	info, err := buildinfo.Read(r)
	if err != nil {
		return "", "", ""
	}
	for _, s := range info.Settings {
		if s.Key == "DefaultGODEBUG" {
			godebug = s.Value
		}
	}
	return info.GoVersion, info.Main.Version, godebug
}
