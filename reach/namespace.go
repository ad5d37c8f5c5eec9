package reach

// namespaceError says that a network namespace could not be entered, so that
// nothing was asked there. Its errno says nothing about the target.
type namespaceError struct{ err error }

func (e *namespaceError) Error() string { return "reach: network namespace: " + e.err.Error() }

func (e *namespaceError) Unwrap() error { return e.err }
