package classify

// Challenge is one challenge of a WWW-Authenticate field (RFC 9110, section 11.6.1),
// cut and redacted so that it can be printed.
type Challenge struct {
	Scheme  string `json:"scheme,omitempty"`  // lower case: "bearer", "basic", or another
	Realm   string `json:"realm,omitempty"`   // the token server, without query
	Service string `json:"service,omitempty"` // what the token server calls this registry
	Scope   string `json:"scope,omitempty"`   // the scope that was demanded, "" if none was
	// Product is the registry that the challenge is typical of, "" if none is
	// recognised. It is a label only.
	Product string `json:"product,omitempty"`
}

// RateLimit is what the header of an answer says of the server's quota; servers send
// it with answers that were granted as well.
type RateLimit struct {
	Limit     int64  `json:"limit"`               // requests per window; 0 = not said
	Remaining int64  `json:"remaining"`           // of them
	WindowMS  int64  `json:"windowMs,omitempty"`  // 0 = not said
	RetryMS   int64  `json:"retryMs,omitempty"`   // Retry-After; 0 = not said
	Source    string `json:"source,omitempty"`    // what is counted, in the server's words: an address or an account
	Exhausted bool   `json:"exhausted,omitempty"` // nothing remains
}
