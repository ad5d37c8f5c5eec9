//go:build unix

package pluginrun

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the end of a program the end of what it started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
