package pullwalk

import "net/http"

// clocked is an endpoint's connections, which tell the TLS checks of the others
// what time it is over there: a certificate that is out of its dates is judged
// again by a clock that a verified host vouches for.
type clocked struct{ e *endpoint }

// RoundTrip makes clocked an [http.RoundTripper].
func (c clocked) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.e.pool.RoundTrip(req)
	if err == nil && c.e.scheme == "https" && !c.e.tls.skipVerify {
		c.e.src.d.company.seen.Date(c.e.host, resp.Header, c.e.d.view.Now())
	}
	return resp, err
}
