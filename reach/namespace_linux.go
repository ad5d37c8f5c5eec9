package reach

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// inNamespace calls do on a thread that is in the network namespace at path; ""
// = on the calling one. Sockets stay in the namespace of the thread that makes
// them, wherever they are used later.
//
// The work runs in a goroutine of its own, locked to its thread: if the way back
// fails, the goroutine ends locked, and the runtime ends that thread with it.
func inNamespace(path string, do func() error) error {
	if path == "" {
		return do()
	}
	done := make(chan error, 1)
	go func() { done <- onOwnThread(path, do) }()
	return <-done
}

func onOwnThread(path string, do func() error) error {
	// Not opened by os.Open: a FIFO would hold it up forever.
	there, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return &namespaceError{&os.PathError{Op: "open", Path: path, Err: err}}
	}
	defer unix.Close(there)
	runtime.LockOSThread()
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return &namespaceError{err}
	}
	defer unix.Close(home)
	if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return &namespaceError{&os.PathError{Op: "enter", Path: path, Err: err}}
	}
	err = do()
	if unix.Setns(home, unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return err
}

// place is the network namespace of the thread that asked for it.
type place struct {
	dev, ino uint64
	thread   int
}

// here returns the place of the calling thread. It costs a microsecond and no
// descriptor.
func here() place {
	p := place{thread: unix.Gettid()}
	p.dev, p.ino, _ = identity("/proc/thread-self/ns/net")
	return p
}

// path returns "" if the calling goroutine, which must be a new one, already is
// in that namespace, else the way to enter it. A new goroutine never runs on a
// thread that another has locked, so a difference means that the goroutine that
// asked for the place has locked its thread, which therefore still exists.
func (p place) path() string {
	dev, ino, err := identity("/proc/thread-self/ns/net")
	if err != nil || p.ino == 0 || dev == p.dev && ino == p.ino {
		return ""
	}
	return "/proc/self/task/" + strconv.Itoa(p.thread) + "/ns/net"
}

// identity returns the numbers that make a namespace unique on a machine.
func identity(path string) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, 0, err
	}
	return uint64(st.Dev), st.Ino, nil
}
