package classify

import "fmt"

// HTTPAnswer is a complete HTTP answer that a pull cannot use, as an error. The
// probes fill it, so that the meaning of a status is decided here alone and is
// the same for a live answer and for a text.
type HTTPAnswer struct {
	Operation Operation
	Host      string // host[:port] that answered
	URL       string // redacted: no query, no user information
	Method    string
	Status    int
	// Answerer says who wrote the answer: "registry" (the error JSON of the
	// distribution specification or its version header), "object-store" (XML
	// error of a blob store), "html" (a page), "proxy", or "unknown".
	Answerer string
	Codes    []string // error codes of the body, upper case as sent, at most 8
	Message  string   // the body's own words, bounded and redacted
	// Credentialed says that the request carried a credential or a token.
	Credentialed bool
	// Mirror says that the host is a mirror and not the image's own registry.
	Mirror bool
}

// Error returns one line without anything secret.
func (a *HTTPAnswer) Error() string {
	s := fmt.Sprintf("%s %s: %d", a.Method, a.URL, a.Status)
	for _, c := range a.Codes {
		s += " " + c
	}
	if a.Message != "" {
		s += ": " + a.Message
	}
	return s
}
