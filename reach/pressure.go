package reach

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Pressure is how much room a Linux kernel has left for connections. Counters
// count since the machine started, so that only their growth says something:
// see [Pressure.Since].
type Pressure struct {
	// ConntrackCount of ConntrackMax tracked connections; 0 = not tracked, or not
	// to be seen.
	ConntrackCount int64 `json:"conntrackCount,omitempty"`
	ConntrackMax   int64 `json:"conntrackMax,omitempty"`
	// ConntrackDrops counts packets dropped because the table was full or an entry
	// could not be made (drop, early_drop, insert_failed).
	ConntrackDrops int64 `json:"conntrackDrops"`
	// Ports is how many ports a connection can leave from; 0 = not known.
	// PortsReserved are among them and not used by the kernel on its own.
	Ports         int `json:"ports,omitempty"`
	PortsReserved int `json:"portsReserved,omitempty"`
	// TCPInUse, TCPTimeWait, TCPOrphans count sockets of the network namespace.
	TCPInUse    int64 `json:"tcpInUse"`
	TCPTimeWait int64 `json:"tcpTimeWait"`
	TCPOrphans  int64 `json:"tcpOrphans"`
	// ListenDrops counts connections that servers here were too slow to take,
	// RequestDrops SYNs refused by a full queue, SYNRetransmits SYNs that had to
	// be repeated, Retransmits all repeated segments.
	ListenDrops    int64 `json:"listenDrops"`
	RequestDrops   int64 `json:"requestDrops"`
	SYNRetransmits int64 `json:"synRetransmits"`
	Retransmits    int64 `json:"retransmits"`
	// Unread are the files that could not be read or understood, in the order of
	// reading; conntrack files are missing where nothing is tracked.
	Unread []string `json:"unread,omitempty"`
	// Inconclusive says why nothing could be seen at all; "" = something could.
	Inconclusive string `json:"inconclusive,omitempty"`
}

// Where pressure becomes a warning, and where the kernel starts to refuse.
const (
	pressureWarn = 0.9
	pressureFull = 1.0
)

// maxProcFile bounds one file of /proc.
const maxProcFile = 1 << 20

// CheckPressure reads how near the kernel is to its limits from the files under
// proc of a host's file tree; nil = this machine's. Counters of sockets are
// those of the network namespace of process 1 there, which is the host's only if
// that process 1 is. The conntrack files below proc/sys show the namespace of the
// process that reads them, whatever the file tree.
//
// It never fails: what cannot be read is said in the report.
func CheckPressure(fsys fs.FS) *Pressure {
	if fsys == nil {
		fsys = os.DirFS("/")
	}
	p := &Pressure{}
	seen := false
	read := func(name string, parse func([]byte) bool) {
		data, err := readBounded(fsys, name)
		if err != nil || !parse(data) {
			p.Unread = append(p.Unread, "/"+name)
			return
		}
		seen = true
	}
	number := func(into *int64) func([]byte) bool {
		return func(data []byte) (ok bool) {
			*into, ok = count(string(bytes.TrimSpace(data)))
			return ok
		}
	}
	read("proc/sys/net/netfilter/nf_conntrack_count", number(&p.ConntrackCount))
	read("proc/sys/net/netfilter/nf_conntrack_max", number(&p.ConntrackMax))
	read("proc/1/net/stat/nf_conntrack", p.conntrackStat)
	read("proc/sys/net/ipv4/ip_local_port_range", func(data []byte) bool {
		fields := strings.Fields(string(data))
		if len(fields) != 2 {
			return false
		}
		low, err := strconv.ParseUint(fields[0], 10, 16)
		high, err2 := strconv.ParseUint(fields[1], 10, 16)
		if err != nil || err2 != nil || low > high {
			return false
		}
		p.Ports = int(high-low) + 1
		return true
	})
	read("proc/sys/net/ipv4/ip_local_reserved_ports", func(data []byte) bool {
		list := strings.TrimSpace(string(data))
		if list == "" {
			return true
		}
		ranges, err := parsePorts(strings.Split(list, ","))
		for _, r := range ranges {
			p.PortsReserved += int(r.To-r.From) + 1
		}
		return err == nil && len(ranges) > 0
	})
	read("proc/1/net/sockstat", p.sockstat)
	read("proc/1/net/netstat", func(data []byte) bool {
		return pairs(data, "TcpExt:", map[string]*int64{
			"ListenDrops": &p.ListenDrops, "TCPReqQFullDrop": &p.RequestDrops, "TCPSynRetrans": &p.SYNRetransmits,
		})
	})
	read("proc/1/net/snmp", func(data []byte) bool {
		return pairs(data, "Tcp:", map[string]*int64{"RetransSegs": &p.Retransmits})
	})
	if !seen {
		p.Inconclusive = "none of the kernel's counters could be read"
	}
	return p
}

func readBounded(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(path.Clean(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProcFile+1))
	if err == nil && len(data) > maxProcFile {
		err = fmt.Errorf("%s: larger than %d bytes", name, maxProcFile)
	}
	return data, err
}

// count reads a number that counts something.
func count(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0
}

// conntrackStat adds the columns of all processors; they are hexadecimal.
func (p *Pressure) conntrackStat(data []byte) bool {
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	header := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		for i, field := range strings.Fields(line) {
			if i >= len(header) {
				break
			}
			switch header[i] {
			case "drop", "early_drop", "insert_failed":
				n, err := strconv.ParseUint(field, 16, 32)
				if err != nil {
					return false
				}
				p.ConntrackDrops += int64(n)
			}
		}
	}
	return len(lines) > 1
}

// sockstat reads the line "TCP: inuse 5 orphan 0 tw 2 alloc 7 mem 1".
func (p *Pressure) sockstat(data []byte) bool {
	want := map[string]*int64{"inuse": &p.TCPInUse, "tw": &p.TCPTimeWait, "orphan": &p.TCPOrphans}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "TCP:" {
			continue
		}
		for i := 1; i+1 < len(fields); i += 2 {
			n, ok := count(fields[i+1])
			if !ok {
				return false
			}
			if into := want[fields[i]]; into != nil {
				*into = n
			}
		}
		return true
	}
	return false
}

// pairs reads a line of names and the line of numbers that follows it, both with
// the same first word (proc_pid_net(5)).
func pairs(data []byte, prefix string, want map[string]*int64) bool {
	var names []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != prefix {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, name := range names {
			if into := want[name]; into != nil && i < len(fields) {
				n, ok := count(fields[i])
				if !ok {
					return false
				}
				*into = n
			}
		}
		return true
	}
	return false
}

// Findings returns what is near its limit, or beyond it.
func (p *Pressure) Findings() []classify.Finding {
	var found []classify.Finding
	use := func(what string, used, limit int64) {
		if limit <= 0 || float64(used) < pressureWarn*float64(limit) {
			return
		}
		f := classify.New(classify.RoutePressure, fmt.Sprintf("%d of %d %s are in use on this machine", used, limit, what),
			classify.Fact{Key: factUse, Value: fmt.Sprintf("%d/%d", used, limit)})
		if float64(used) < pressureFull*float64(limit) {
			f.Severity = classify.SeverityWarn
		}
		found = append(found, f)
	}
	use("entries of the connection tracking table", p.ConntrackCount, p.ConntrackMax)
	// One port serves many connections, as long as they go to different places:
	// full only where all go to one, so never more than a warning.
	use("local ports for connections", min(p.TCPInUse+p.TCPTimeWait, int64(p.Ports-p.PortsReserved)-1), int64(p.Ports-p.PortsReserved))
	return found
}

// Since returns what grew between an earlier look and this one and should not
// have: nothing, if nothing was dropped. Counters that went back, as after a
// restart, count as not grown.
func (p *Pressure) Since(earlier *Pressure) []classify.Finding {
	if earlier == nil {
		return nil
	}
	var found []classify.Finding
	grown := func(what string, before, now int64) {
		if now <= before {
			return
		}
		f := classify.New(classify.RoutePressure, fmt.Sprintf("meanwhile the kernel of this machine dropped %d %s", now-before, what),
			classify.Fact{Key: factUse, Value: strconv.FormatInt(now-before, 10)})
		f.Severity = classify.SeverityWarn
		found = append(found, f)
	}
	grown("packets for want of room in the connection tracking table", earlier.ConntrackDrops, p.ConntrackDrops)
	grown("connections that servers here did not take in time", earlier.ListenDrops, p.ListenDrops)
	grown("connection requests because a queue was full", earlier.RequestDrops, p.RequestDrops)
	return found
}
