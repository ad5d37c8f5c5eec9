package tlsauth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"
	"strings"
	"unicode"
)

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

// roleWord tells whether a word of a CA's name says what the CA does, not whose
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

// saysRoot tells whether a CA calls itself a root: such a one is missing on the
// node, not in what the server sends.
func (n named) saysRoot() bool { return strings.Contains(n.cn, "root") }

// saysBetween tells whether a CA calls itself an intermediate.
func (n named) saysBetween() bool {
	for _, w := range strings.FieldsFunc(n.cn, func(r rune) bool { return !unicode.IsLetter(r) }) {
		switch w {
		case "inter", "intermediate", "issuing", "sub", "subca", "subordinate":
			return true
		}
	}
	return false
}

// akin tells whether two names are of one owner's CAs.
func (n named) akin(o named) bool {
	if n.organization != "" && n.organization == o.organization {
		return true
	}
	return len(n.family) > 0 && slices.Equal(n.family, o.family)
}

// kin returns the subject of a trusted root of the same owner as issuer, "" if
// there is none.
func (r *Roots) kin(issuer named) string {
	//lint:ignore SA1019 the pool of a caller can be searched in no other way
	for _, raw := range r.Pool.Subjects() {
		var rdn pkix.RDNSequence
		if rest, err := asn1.Unmarshal(raw, &rdn); err != nil || len(rest) > 0 {
			continue
		}
		var n pkix.Name
		n.FillFromRDNSequence(&rdn)
		if issuer.akin(nameOf(n)) {
			return n.String()
		}
	}
	return ""
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
