//go:build !linux

package reach

import (
	"errors"
	"fmt"
)

// inNamespace calls do; there are no network namespaces to enter here.
func inNamespace(path string, do func() error) error {
	if path != "" {
		return &namespaceError{fmt.Errorf("%q: %w on this system", path, errors.ErrUnsupported)}
	}
	return do()
}

// place is this machine: there is only one.
type place struct{}

func here() place { return place{} }

func (place) path() string { return "" }

// namespaceName: namespaces have no names here.
func namespaceName(string) string { return "" }
