package tlsauth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/pullwalk/pullwalk/classify"
)

func subject(cert *x509.Certificate) string { return printName(cert.Subject, 256) }

// maxName bounds the attributes of a name that are printed.
const maxName = 32

// printName is a name in the usual form. Package pkix takes quadratic time for a
// name of very many attributes, of which the first ones are printed then.
func printName(n pkix.Name, limit int) string {
	if len(n.Names) > maxName {
		few := make(pkix.RDNSequence, maxName)
		for i := range few {
			few[i] = n.Names[i : i+1]
		}
		return classify.Redact(few.String(), limit-3) + "…"
	}
	return classify.Redact(n.String(), limit)
}

// offered lists the names of a certificate in one line.
func offered(cert *x509.Certificate) string {
	names, more := altNames(cert, 8)
	if len(names) == 0 {
		return "no name"
	}
	s := strings.Join(names, ", ")
	if more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// altNames returns at most limit DNS and IP names, and how many more there are.
func altNames(cert *x509.Certificate, limit int) (names []string, more int) {
	names = append(names, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) > limit {
		names, more = names[:limit], len(names)-limit
	}
	for i, n := range names {
		names[i] = classify.Redact(n, 255)
	}
	return names, more
}

// A server that forgets its intermediate and a server of an unknown CA look the
// same: a leaf whose issuer is not here. What tells them apart without the
// missing certificate are names, and names are a hint, never a proof.

// named is what counts of a distinguished name.
type named struct {
	cn           string
	organization string
	family       []string // words of cn that say whose CA it is, sorted
}

func nameOf(n pkix.Name) named {
	out := named{cn: strings.ToLower(n.CommonName)}
	if len(n.Organization) > 0 {
		out.organization = strings.ToLower(strings.TrimSpace(n.Organization[0]))
	}
	words := strings.FieldsFunc(out.cn, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, w := range words[:min(len(words), 16)] {
		if !roleWord(w) && !slices.Contains(out.family, w) {
			out.family = append(out.family, w)
		}
	}
	slices.Sort(out.family)
	return out
}

// roleWord reports whether a word of a CA's name says what the CA does, not whose
// it is.
func roleWord(w string) bool {
	switch w {
	case "ca", "cas", "root", "rootca", "inter", "intermediate", "int", "issuing", "issuer", "sub", "subca", "subordinate", "policy",
		"tls", "ssl", "server", "servers", "web", "rsa", "ecc", "ecdsa", "ec", "sha256", "sha384", "sha512", "certificate", "certification",
		"cert", "certs", "authority", "trust", "secure", "signing", "class", "global", "public", "private", "dv", "ov", "ev", "the", "of", "and":
		return true
	}
	// Numbers, years and generations: 1, 01, 2020, g2, r3, v1, x1, e5, ca1.
	digits := strings.TrimLeftFunc(strings.TrimPrefix(w, "ca"), func(r rune) bool { return strings.ContainsRune("grvxe", r) })
	return strings.TrimFunc(digits, unicode.IsDigit) == "" && len(w) <= 4
}

// saysRoot reports whether a CA calls itself a root: such a one is missing on the
// node, not in what the server sends.
func (n named) saysRoot() bool { return strings.Contains(n.cn, "root") }

// saysBetween reports whether a CA calls itself an intermediate.
func (n named) saysBetween() bool {
	for _, w := range strings.FieldsFunc(n.cn, func(r rune) bool { return !unicode.IsLetter(r) }) {
		switch w {
		case "inter", "intermediate", "issuing", "sub", "subca", "subordinate":
			return true
		}
	}
	return false
}

// sameOwner reports whether two names are of one owner's CAs.
func (n named) sameOwner(o named) bool {
	if n.organization != "" && n.organization == o.organization {
		return true
	}
	return len(n.family) > 0 && slices.Equal(n.family, o.family)
}

// inspectors are words by which inspection products, and the CAs that people
// make for them, name themselves. Lower case.
var inspectors = []string{
	"zscaler", "fortinet", "fortigate", "netskope", "palo alto", "blue coat", "bluecoat", "symantec web", "forcepoint", "websense",
	"sophos", "check point", "barracuda", "mcafee web", "skyhigh", "watchguard", "sonicwall", "iboss", "cato networks",
	"menlo security", "cisco umbrella", "cloudflare for teams", "gateway ca - cloudflare", "azure firewall", "untangle", "mitmproxy",
	"charles proxy", "do_not_trust_fiddler", "portswigger", "kaspersky", "eset ssl", "avast web", "trend micro", "f5 ssl", "a10 networks",
	"inspection", "intercept", "decrypt", "mitm", "ssl proxy", "tls proxy", "web proxy", "proxy ca",
}

// inspector returns the word by which a chain's issuers give an inspection
// device away, "" if none does.
func inspector(certs []*x509.Certificate) string {
	for _, cert := range certs {
		issuer := strings.ToLower(printName(cert.Issuer, 4096))
		for _, word := range inspectors {
			if strings.Contains(issuer, word) {
				return word
			}
		}
	}
	return ""
}

// publicServices are registries and blob stores whose certificates come from
// public CAs everywhere: another issuer is somebody in between.
var publicServices = []string{
	"docker.io", "docker.com", "cloudflarestorage.com", "azurecr.io", "mcr.microsoft.com", "blob.core.windows.net", "amazonaws.com",
	"public.ecr.aws", "cloudfront.net", "gcr.io", "pkg.dev", "googleapis.com", "ghcr.io", "githubusercontent.com", "quay.io", "registry.k8s.io", "gitlab.com",
	"nvcr.io", "registry.redhat.io",
}

func publicService(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(publicServices, func(s string) bool { return host == s || strings.HasSuffix(host, "."+s) })
}

// owner is the last two labels of a name, and an address itself.
func owner(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(host, ".")
	if len(labels) <= 2 || strings.Contains(host, ":") || labels[len(labels)-1] == "" || labels[len(labels)-1][0] <= '9' {
		return host
	}
	return strings.Join(labels[len(labels)-2:], ".")
}
