package noderuntime

import (
	"debug/buildinfo"
	"io"
	"io/fs"
)

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
