//go:build !unix && !windows

package classify

// errnoFact knows no error numbers of this platform; the text of the error is
// read instead.
func errnoFact(error) string { return "" }
