package lab

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Fault is one thing that goes wrong. World.Break makes it true, World.Heal
// ends it. Faults of different hosts, and of different things, add up.
type Fault func(*World)

// hostFaults is what is wrong with one host; zero means nothing.
type hostFaults struct {
	conn           connFaults
	headerStall    bool
	bodyStall      bool
	endlessHeaders bool
	endlessBody    bool
	redirectLoop   bool
	tokenMoved     *movedTo
	answer         *cannedAnswer // instead of every real one
	overrides      []override    // instead of some; the first that answers
}

type override func(http.ResponseWriter, *http.Request) bool

// connFaults is what is wrong with a host below http; settled per connection.
type connFaults struct {
	refused       bool
	silent        bool
	reset         bool
	halfHandshake bool
	notTLS        bool
	certificate   *tls.Certificate // nil means the host's own
	server        *tls.Config      // nil means the host's own settings
}

// movedTo is an answer that sends a client elsewhere; the query goes along.
type movedTo struct {
	status   int
	location string
}

type cannedAnswer struct {
	status      int
	contentType string
	body        string
}

// worldFaults is what is wrong with names, rights and content; zero means
// nothing. It is copied under the lock, so its maps are replaced, never changed.
type worldFaults struct {
	noSuchName map[string]bool
	dns        dnsFault

	missingTag, wrongManifest, hugeManifest bool
	headStatus, pingStatus                  int // 0 means the honest answer
	noChallenge, accessDenied               bool
	realm, redirectTo                       string // empty means the world's own
	blobs                                   map[v1.Hash]blobFault

	tokenWithoutRight, tokenWithMore, tokenEmpty, anonymousRefused bool
	postStatus                                                     int // 0 means the honest answer
}

type blobFault int

const (
	blobMissing   blobFault = iota + 1 // the registry does not know it
	blobGone                           // the registry knows it, the store does not have it
	blobCorrupt                        // one bit is wrong
	blobTruncated                      // the second half never comes
)

type dnsFault int

const (
	dnsServFail dnsFault = iota + 1
	dnsRefused
	dnsSilent
	dnsTruncated
)

// Names.

// NoSuchName removes the host from the zone: NXDOMAIN.
func NoSuchName(h *Host) Fault {
	return func(w *World) {
		names := maps.Clone(w.faults.noSuchName)
		if names == nil {
			names = map[string]bool{}
		}
		names[h.Name] = true
		w.faults.noSuchName = names
	}
}

// ServFail makes the nameserver answer SERVFAIL to everything.
func ServFail() Fault { return func(w *World) { w.faults.dns = dnsServFail } }

// RefusedRCode makes the nameserver answer REFUSED to everything.
func RefusedRCode() Fault { return func(w *World) { w.faults.dns = dnsRefused } }

// SilentDNS makes the nameserver take every question and answer none.
func SilentDNS() Fault { return func(w *World) { w.faults.dns = dnsSilent } }

// TruncatedDNS makes every answer over UDP empty and truncated; TCP has them.
func TruncatedDNS() Fault { return func(w *World) { w.faults.dns = dnsTruncated } }

// Connections.

// Refused closes the host's port.
func Refused(h *Host) Fault { return func(*World) { h.faults.conn.refused = true } }

// Silent makes the host accept connections and never send a byte.
func Silent(h *Host) Fault { return func(*World) { h.faults.conn.silent = true } }

// ResetAfterAccept makes the host accept connections and reset each one at the
// first bytes that come. A connection in memory is reset if it has the method
// SetLinger(int) error, else closed.
func ResetAfterAccept(h *Host) Fault { return func(*World) { h.faults.conn.reset = true } }

// TLS.

// TLSStall lets the first bytes of the server's hello through and loses the
// rest, like a path that drops large packets. It needs a world with TLS.
func TLSStall(h *Host) Fault { return func(*World) { h.faults.conn.halfHandshake = true } }

// NotTLS makes the host speak plain http on its TLS port.
func NotTLS(h *Host) Fault { return func(*World) { h.faults.conn.notTLS = true } }

// UntrustedCA makes the host show a certificate of an authority that nobody
// trusts.
func UntrustedCA(h *Host) Fault {
	return func(w *World) {
		now := w.now()
		h.setCertificate(w.otherCA.issue(h.Name, now.Add(-time.Hour), now.AddDate(0, 3, 0)))
	}
}

// WrongName makes the host show a good certificate for another name.
func WrongName(h *Host) Fault {
	return func(w *World) { h.setCertificate(w.Certificate("other.corp.test")) }
}

// ExpiredCert makes the host show a certificate that ended an hour ago.
func ExpiredCert(h *Host) Fault {
	return func(w *World) {
		now := w.now()
		h.setCertificate(w.ca.issue(h.Name, now.Add(-48*time.Hour), now.Add(-time.Hour)))
	}
}

// ServesCertificate makes the host show any certificate.
func ServesCertificate(h *Host, c tls.Certificate) Fault {
	return func(*World) { h.setCertificate(c) }
}

// ServesTLS makes the host speak TLS as change says: versions, ciphers, client
// certificates. change gets the host's own settings to alter.
func ServesTLS(h *Host, change func(*tls.Config)) Fault {
	return func(*World) {
		c := h.tls.Clone()
		change(c)
		h.faults.conn.server = c
	}
}

// setCertificate is called with the world's lock held.
func (h *Host) setCertificate(c tls.Certificate) { h.faults.conn.certificate = &c }

// HTTP, on any host.

// HeaderStall makes the host read requests and never answer.
func HeaderStall(h *Host) Fault { return func(*World) { h.faults.headerStall = true } }

// BodyStall makes the host stop after the first byte of each successful body.
func BodyStall(h *Host) Fault { return func(*World) { h.faults.bodyStall = true } }

// EndlessHeaders makes the host send header lines without end.
func EndlessHeaders(h *Host) Fault { return func(*World) { h.faults.endlessHeaders = true } }

// EndlessBody makes every body of the host, also of errors, go on with spaces
// without end.
func EndlessBody(h *Host) Fault { return func(*World) { h.faults.endlessBody = true } }

// RedirectLoop makes the host redirect each request to itself.
func RedirectLoop(h *Host) Fault { return func(*World) { h.faults.redirectLoop = true } }

// Status makes the host answer everything with one status and body. A body that
// begins with a brace is declared as JSON, any other as plain text.
func Status(h *Host, status int, body string) Fault {
	contentType := "text/plain; charset=utf-8"
	if strings.HasPrefix(body, "{") {
		contentType = "application/json"
	}
	return answers(h, status, contentType, body)
}

// HTMLPage makes the host answer everything with the page of a filter or login
// portal. On the token host with status 200 this is "HTML instead of a token".
func HTMLPage(h *Host, status int) Fault {
	return answers(h, status, "text/html; charset=utf-8",
		"<!DOCTYPE html><html><head><title>Corp web gateway</title></head><body><h1>Please sign in</h1></body></html>")
}

func answers(h *Host, status int, contentType, body string) Fault {
	return func(*World) { h.faults.answer = &cannedAnswer{status, contentType, body} }
}

// Answers lets f answer in the host's place; where f reports false it has written
// nothing, and the host answers itself.
func Answers(h *Host, f func(http.ResponseWriter, *http.Request) bool) Fault {
	return func(*World) { h.faults.overrides = append(slices.Clone(h.faults.overrides), f) }
}

// Registry.

// RealmTo makes the registry's challenge name another token address.
func RealmTo(realm string) Fault { return func(w *World) { w.faults.realm = realm } }

// NoChallenge makes the registry answer 401 without saying how to authenticate.
func NoChallenge() Fault { return func(w *World) { w.faults.noChallenge = true } }

// AccessDenied makes the registry answer 403 DENIED to good tokens.
func AccessDenied() Fault { return func(w *World) { w.faults.accessDenied = true } }

// HeadBlocked makes something answer HEAD of manifests with a status (403, 405)
// while GET works.
func HeadBlocked(status int) Fault { return func(w *World) { w.faults.headStatus = status } }

// PingBlocked makes something answer /v2/ itself with a status (403, 404) while
// all below it works.
func PingBlocked(status int) Fault { return func(w *World) { w.faults.pingStatus = status } }

// MissingTag removes the tag: MANIFEST_UNKNOWN. The digest still exists.
func MissingTag() Fault { return func(w *World) { w.faults.missingTag = true } }

// WrongDigestManifest makes manifests that are asked for by digest arrive with
// other bytes than the digest says; the header still claims the digest.
func WrongDigestManifest() Fault { return func(w *World) { w.faults.wrongManifest = true } }

// HugeManifest makes every manifest 256 MiB long.
func HugeManifest() Fault { return func(w *World) { w.faults.hugeManifest = true } }

// RedirectTo makes the registry redirect every blob to one address.
func RedirectTo(location string) Fault { return func(w *World) { w.faults.redirectTo = location } }

// Tokens.

// TokenWithoutRight makes the token host issue tokens that allow nothing.
func TokenWithoutRight() Fault { return func(w *World) { w.faults.tokenWithoutRight = true } }

// TokenWithMore makes the token host grant the reader whatever is asked for.
func TokenWithMore() Fault { return func(w *World) { w.faults.tokenWithMore = true } }

// TokenEmpty makes the token host answer 200 with no token in it.
func TokenEmpty() Fault { return func(w *World) { w.faults.tokenEmpty = true } }

// AnonymousRefused makes the token host answer 401 to a request without
// credentials; else that gets a token that allows nothing.
func AnonymousRefused() Fault { return func(w *World) { w.faults.anonymousRefused = true } }

// TokenMoved makes a host redirect what is asked of a token server at it, with a
// status (301, 302, 303, 307, 308), to a location; the query goes along.
func TokenMoved(h *Host, status int, location string) Fault {
	return func(*World) { h.faults.tokenMoved = &movedTo{status, location} }
}

// NoTokenPost makes the token host answer POST with a status (404, 405); GET
// works.
func NoTokenPost(status int) Fault { return func(w *World) { w.faults.postStatus = status } }

// Layers. They are counted from 0, and broken for every platform. Numbers that
// the image does not have panic: a fault that breaks nothing would be a lie.

// MissingBlob makes the registry not know the layer: BLOB_UNKNOWN.
func MissingBlob(layer int) Fault { return breaksLayer(layer, blobMissing) }

// BlobGone makes the registry redirect to the layer and the store not have it.
func BlobGone(layer int) Fault { return breaksLayer(layer, blobGone) }

// CorruptLayer changes one bit in the middle of the layer; length and headers
// stay.
func CorruptLayer(layer int) Fault { return breaksLayer(layer, blobCorrupt) }

// TruncatedLayer ends the connection at the middle of the layer; the header
// still promises all of it.
func TruncatedLayer(layer int) Fault { return breaksLayer(layer, blobTruncated) }

func breaksLayer(layer int, fault blobFault) Fault {
	return func(w *World) {
		if layer < 0 || layer >= w.image.layers {
			panic(fmt.Sprintf("lab: the image has no layer %d", layer))
		}
		blobs := maps.Clone(w.faults.blobs)
		if blobs == nil {
			blobs = map[v1.Hash]blobFault{}
		}
		for _, manifest := range w.image.platforms {
			blobs[manifest.Layers[layer].Digest] = fault
		}
		w.faults.blobs = blobs
	}
}
