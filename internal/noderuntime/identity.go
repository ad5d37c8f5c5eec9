package noderuntime

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pullwalk/pullwalk/internal/nodefs"
)

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
