package reach

import (
	"fmt"
	"io/fs"

	"github.com/pullwalk/pullwalk/internal/nodefs"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

// The values of [Vantage.Whose].
const (
	VantageRuntime = "runtime" // that of the process that pulls
	VantageHost    = "host"    // the machine's own; no runtime was found to compare with
	VantageOther   = "other"   // neither: a Pod's, or another
	VantageUnknown = "unknown" // cannot be said from here
)

// Vantage says from whose network namespace is looked. What holds in a Pod's
// namespace proves nothing of a pull, which happens in the runtime's.
type Vantage struct {
	// Whose is one of the Vantage constants.
	Whose string `json:"whose"`
	// Namespace is the identity of the network namespace on this machine,
	// "net:[4026531833]"; "" = not to be seen.
	Namespace string `json:"namespace,omitempty"`
	// Runtime and RuntimePID are the container runtime that was found; "" and 0 =
	// none.
	Runtime    string `json:"runtime,omitempty"`
	RuntimePID int    `json:"runtimePid,omitempty"`
	// Reason is one sentence that says how Whose is known, or why it is not.
	Reason string `json:"reason"`
}

// Vantage says whose network namespace s looks from, by the processes of the
// host's file tree fsys; nil = this machine's. An agent sees the host's
// processes only with the host's pid namespace, or through the host's own proc.
// Linux only, unknown elsewhere.
func (s System) Vantage(fsys fs.FS) Vantage {
	if fsys == nil {
		own, err := nodefs.New("/")
		if err != nil {
			return Vantage{Whose: VantageUnknown, Reason: "the file tree of this machine cannot be read"}
		}
		fsys = own
	}
	v := Vantage{Whose: VantageUnknown}
	if v.Namespace = namespaceName(s.Namespace); v.Namespace == "" {
		v.Reason = "the network namespace itself cannot be seen"
		return v
	}
	runtimes := "no container runtime was found"
	if found, ok := noderuntime.Find(fsys); ok {
		v.Runtime, v.RuntimePID = found.Name, found.PID
		runtimes = fmt.Sprintf("%s (process %d) was found", found.Name, found.PID)
		if its, err := fs.ReadLink(fsys, fmt.Sprintf("proc/%d/ns/net", found.PID)); err == nil {
			if its == v.Namespace {
				v.Whose, v.Reason = VantageRuntime, runtimes+" in the same network namespace"
			} else {
				v.Whose, v.Reason = VantageOther, runtimes+" in another network namespace, "+its
			}
			return v
		}
		runtimes += ", and its network namespace cannot be read"
	}
	first, err := fs.ReadLink(fsys, "proc/1/ns/net")
	switch {
	case err != nil:
		v.Reason = runtimes + ", and that of process 1 cannot be read"
	case first != v.Namespace:
		v.Whose, v.Reason = VantageOther, runtimes+"; process 1 is in another network namespace"
	case noderuntime.NetworkNamespace(fsys) == VantageHost:
		v.Whose, v.Reason = VantageHost, runtimes+"; process 1 is the machine's, and in the same network namespace"
	default:
		v.Reason = runtimes + "; process 1 is in the same network namespace, but it may be a container's"
	}
	return v
}
