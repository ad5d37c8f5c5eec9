package main

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/pullwalk/pullwalk/tlsauth"
)

const maxProcFile = 1 << 20

// kubelet reads which credentials the node's own kubelet has: by its command line
// and environment where its process is seen, else by the places that it looks at
// when nothing else is said. It is read for each request, since files change.
func (m machine) kubelet() *tlsauth.Kubelet {
	root, err := os.OpenRoot(cmp.Or(m.hostRoot, "/"))
	if err != nil {
		return &tlsauth.Kubelet{} // the diagnosis says what is wrong with the tree
	}
	// Links that lead out of the tree are refused there, and not followed into this
	// program's own. The tree is closed when nobody refers to it any more.
	tree := root.FS()
	args, environ := kubeletProcess(tree)
	return tlsauth.NodeKubelet(tree, args, environ)
}

// kubeletProcess returns how the node's kubelet was started, nil if none is seen:
// the oldest process of that name in the process namespace of process 1, because
// any container may run a program of that name. k3s and RKE2 have the kubelet
// inside another program, which is not looked for.
func kubeletProcess(tree fs.FS) (args []string, environ map[string]string) {
	entries, err := fs.ReadDir(tree, "proc")
	if err != nil {
		return nil, nil
	}
	best := 0
	first, _ := fs.ReadLink(tree, "proc/1/ns/pid")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || best > 0 && pid > best || procFile(tree, pid, "comm") != "kubelet\n" {
			continue
		}
		if own, err := fs.ReadLink(tree, "proc/"+e.Name()+"/ns/pid"); first != "" && (err != nil || own != first) {
			continue
		}
		best = pid
	}
	if best == 0 {
		return nil, nil
	}
	environ = map[string]string{}
	for entry := range strings.SplitSeq(procFile(tree, best, "environ"), "\x00") {
		if key, value, ok := strings.Cut(entry, "="); ok {
			environ[key] = value
		}
	}
	return strings.Split(strings.TrimRight(procFile(tree, best, "cmdline"), "\x00"), "\x00"), environ
}

// procFile reads a file of /proc/PID, which has no size; "" if it cannot be read.
func procFile(tree fs.FS, pid int, name string) string {
	f, err := tree.Open("proc/" + strconv.Itoa(pid) + "/" + name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxProcFile))
	return string(data)
}
