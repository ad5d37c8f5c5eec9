//go:build !unix

package pluginrun

import "os/exec"

// ownGroup does nothing here: only the program itself is ended.
func ownGroup(*exec.Cmd) {}
