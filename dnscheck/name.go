package dnscheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

const (
	maxFQDN  = 254 // RFC 1035 section 2.3.4, in text with the trailing dot
	maxLabel = 63
)

// fqdn returns name with a trailing dot.
func fqdn(name string) string { return strings.TrimSuffix(name, ".") + "." }

// trimDot returns name without its trailing dot; the root zone stays ".".
func trimDot(name string) string {
	if name == "." {
		return name
	}
	return strings.TrimSuffix(name, ".")
}

// lower returns name in lower case without its trailing dot.
func lower(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// checkName refuses what is no host name, and says what it looks like instead.
func checkName(name string) error {
	why := ""
	switch host, port, found := strings.Cut(name, ":"); {
	case name == "":
		why = "it is empty"
	case strings.Contains(name, "://"):
		why = "it is a URL; give its host alone"
	case found && (strings.HasPrefix(name, "[") || !strings.Contains(port, ":")) && host != "":
		why = "it has a port or brackets; give the host alone"
	default:
		err := checkDomain(strings.TrimSuffix(name, "."))
		if err == nil {
			return nil
		}
		why = err.Error()
	}
	return fmt.Errorf("dnscheck: %s is not a host name: %s", classify.Redact(fmt.Sprintf("%.120q", name), 512), why)
}

// checkDomain holds name, without trailing dot, against the rules of Go's resolver
// (net's isDomainName): letters, digits, "-" and "_" in labels of 1 to 63 bytes,
// not digits alone.
func checkDomain(name string) error {
	if len(name) >= maxFQDN {
		return fmt.Errorf("it is longer than %d bytes", maxFQDN-1)
	}
	onlyDigits := true
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return errors.New("a part of it is empty")
		case len(label) > maxLabel:
			return fmt.Errorf("a part of it is longer than %d bytes", maxLabel)
		case label[0] == '-' || label[len(label)-1] == '-':
			return errors.New("a part of it begins or ends with a hyphen")
		}
		for _, b := range []byte(label) {
			switch {
			case '0' <= b && b <= '9':
			case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', b == '-', b == '_':
				onlyDigits = false
			default:
				return fmt.Errorf("it holds %q, which a host name cannot", rune(b))
			}
		}
	}
	if onlyDigits {
		return errors.New("it holds digits only")
	}
	return nil
}

// below returns what stands before domain in name, "@" for the domain itself.
func below(name, domain string) (string, bool) {
	if name == domain {
		return "@", true
	}
	return strings.CutSuffix(name, "."+domain)
}

func isLocalhost(name string) bool {
	_, ok := below(lower(name), "localhost")
	return ok
}

// loopOf returns the name to which a CNAME chain comes back; "" = to none.
func loopOf(name string, chain []string) string {
	seen := []string{lower(name)}
	for _, c := range chain {
		c = lower(c)
		if slices.Contains(seen, c) {
			return c
		}
		seen = append(seen, c)
	}
	return ""
}

// privateLinkLabel marks the zones made for private endpoints: the name of the
// service is an alias into one, and only the private view of it holds a private
// address (Azure Private Link; others have taken the habit over).
const privateLinkLabel = "privatelink"

// privateLinkOf returns the private-link name among the name asked for, the aliases
// of its answer and the zone that denied it; "" = none.
func privateLinkOf(name string, a *Answer) string {
	names := []string{name}
	if a != nil {
		names = append(append(names, a.CNAMEs...), a.SOA)
	}
	for _, n := range names {
		if slices.Contains(strings.Split(strings.ToLower(n), "."), privateLinkLabel) {
			return trimDot(n)
		}
	}
	return ""
}

// isAzureLink reports whether a name can have a private endpoint of Azure: it lies
// in a private-link zone, or is that of a registry.
func isAzureLink(name string) bool {
	name = lower(name)
	for _, domain := range []string{"azurecr.io", "azurecr.cn", "azurecr.us"} {
		if _, ok := below(name, domain); ok {
			return true
		}
	}
	return strings.Contains(name, "."+privateLinkLabel+".") && (strings.HasSuffix(name, ".windows.net") || strings.HasSuffix(name, ".azure.com"))
}

// clusterName says why name looks like one of the cluster's own; "" = it does not.
func clusterName(name string) string {
	name = lower(name)
	switch {
	case strings.HasSuffix(name, ".svc"), strings.Contains(name, ".svc."):
		return "is the name of a Service"
	case strings.HasSuffix(name, ".cluster.local"):
		return "is a name of the cluster domain"
	case !strings.Contains(name, "."):
		return "is a single label, as a Service has in its own namespace"
	}
	return ""
}

// sharedDomains are those below which every customer of a provider has a name.
var sharedDomains = []string{
	"azurecr.io", "azurecr.cn", "azurecr.us", "windows.net", "azure.com", "amazonaws.com", "on.aws", "cloudfront.net",
	"googleapis.com", "pkg.dev", "gcr.io", "docker.io", "docker.com", "cloudflarestorage.com", "quay.io", "github.com", "github.io",
}

// related reports whether two names probably belong to one service.
func related(a, b string) bool {
	x, y := strings.Split(lower(a), "."), strings.Split(lower(b), ".")
	common := 0
	for common < len(x) && common < len(y) && x[len(x)-1-common] == y[len(y)-1-common] {
		common++
	}
	switch {
	case common < 2:
		return false
	case slices.Contains(sharedDomains, strings.Join(x[len(x)-2:], ".")):
		return x[0] == y[0]
	case len(x[len(x)-1]) == 2 && len(x[len(x)-2]) <= 3: // co.uk and the like
		return common >= 3
	}
	return true
}
