//go:build unix

package nodefs

import (
	"errors"
	"io/fs"
	"syscall"
)

// owner is root where the tree knows no owners.
func owner(info fs.FileInfo) (int, error) {
	switch s := info.Sys().(type) {
	case nil:
		return 0, nil
	case *syscall.Stat_t:
		return int(s.Uid), nil
	}
	return 0, errors.New("its owner is not known")
}
