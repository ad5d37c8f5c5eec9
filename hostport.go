package pullwalk

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// splitHostPort reads host or host:port; the port is 443 if it is not said.
func splitHostPort(s string) (host string, port uint16, err error) {
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		host, p = s, "443"
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@?# ") {
		return "", 0, fmt.Errorf("%q is no host:port", s)
	}
	return host, uint16(n), nil
}
