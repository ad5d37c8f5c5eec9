package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// hugeManifest is the size that HugeManifest claims and, if read, delivers.
const hugeManifest = 256 << 20

// serveRegistry answers as a registry of the OCI distribution specification
// with bearer tokens does.
func (w *World) serveRegistry(rw http.ResponseWriter, r *http.Request) {
	faults := w.state()
	rw.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	rest, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	if !ok {
		http.NotFound(rw, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		ociError(rw, r, http.StatusMethodNotAllowed, "UNSUPPORTED", "only pulls are served here")
		return
	}
	if rest == "" {
		w.servePing(rw, r, faults)
		return
	}
	repository, kind, reference, ok := splitPath(rest)
	if !ok {
		ociError(rw, r, http.StatusNotFound, "NAME_UNKNOWN", "no such path")
		return
	}
	if kind == "manifests" && r.Method == http.MethodHead && faults.headStatus != 0 {
		rw.WriteHeader(faults.headStatus)
		return
	}
	if !w.admit(rw, r, faults, repository) {
		return
	}
	if repository != Repository {
		ociError(rw, r, http.StatusNotFound, "NAME_UNKNOWN", "repository name not known to registry")
		return
	}
	if kind == "blobs" {
		w.redirectBlob(rw, r, faults, reference)
		return
	}
	w.serveManifest(rw, r, faults, reference)
}

// servePing answers /v2/ itself. Its challenge has no scope: there is none.
func (w *World) servePing(rw http.ResponseWriter, r *http.Request, faults worldFaults) {
	if faults.pingStatus != 0 {
		rw.WriteHeader(faults.pingStatus)
		return
	}
	if w.admit(rw, r, faults, "") {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, "{}")
	}
}

// admit lets the request pass if its token allows pulls of the repository
// (any valid token, if the repository is empty), else it challenges.
func (w *World) admit(rw http.ResponseWriter, r *http.Request, faults worldFaults, repository string) bool {
	problem := ""
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		claims, valid := w.readToken(token)
		switch {
		case !valid:
			problem = "invalid_token"
		case repository != "" && !claims.allows(repository, "pull"):
			problem = "insufficient_scope"
		case repository != "" && faults.accessDenied:
			ociError(rw, r, http.StatusForbidden, "DENIED", "requested access to the resource is denied")
			return false
		default:
			return true
		}
	}
	if !faults.noChallenge {
		realm := faults.realm
		if realm == "" {
			realm = w.scheme() + "://" + w.Token.Address() + tokenPath
		}
		challenge := fmt.Sprintf("Bearer realm=%q,service=%q", realm, w.Registry.Name)
		if repository != "" {
			challenge += fmt.Sprintf(",scope=%q", "repository:"+repository+":pull")
		}
		if problem != "" {
			challenge += fmt.Sprintf(",error=%q", problem)
		}
		rw.Header().Set("Www-Authenticate", challenge)
	}
	ociError(rw, r, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	return false
}

func (w *World) serveManifest(rw http.ResponseWriter, r *http.Request, faults worldFaults, reference string) {
	doc, ok := w.image.index, true
	if reference != Tag && reference != doc.digest.String() {
		hash, err := v1.NewHash(reference)
		doc, ok = w.image.manifests[hash]
		ok = ok && err == nil
	}
	if !ok || faults.missingTag && reference == Tag {
		ociError(rw, r, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown to registry")
		return
	}
	if !accepts(r, string(doc.mediaType)) {
		ociError(rw, r, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest found, but the accept header does not support "+string(doc.mediaType))
		return
	}
	body := doc.raw
	if faults.wrongManifest && strings.Contains(reference, ":") {
		body = append(append([]byte(nil), body...), '\n') // still the same JSON, no longer the same bytes
	}
	header := rw.Header()
	header.Set("Content-Type", string(doc.mediaType))
	header.Set("Docker-Content-Digest", doc.digest.String())
	header.Set("Etag", strconv.Quote(doc.digest.String()))
	if faults.hugeManifest {
		header.Set("Content-Length", strconv.Itoa(hugeManifest))
		if r.Method == http.MethodGet {
			_, _ = rw.Write(body)
			_, _ = io.CopyN(rw, blanks{}, hugeManifest-int64(len(body)))
		}
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = rw.Write(body)
	}
}

// redirectBlob sends the client to the blob host with a signed address, as
// registries in front of an object store do.
func (w *World) redirectBlob(rw http.ResponseWriter, r *http.Request, faults worldFaults, reference string) {
	hash, err := v1.NewHash(reference)
	if _, ok := w.image.blobs[hash]; err != nil || !ok || faults.blobs[hash] == blobMissing {
		ociError(rw, r, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown to registry")
		return
	}
	location := faults.redirectTo
	if location == "" {
		location = w.blobURL(hash)
	}
	rw.Header().Set("Docker-Content-Digest", hash.String())
	rw.Header().Set("Location", location)
	rw.WriteHeader(http.StatusTemporaryRedirect)
}

// splitPath takes a path below /v2/ apart.
func splitPath(rest string) (repository, kind, reference string, ok bool) {
	for _, kind := range []string{"manifests", "blobs"} {
		if i := strings.LastIndex(rest, "/"+kind+"/"); i > 0 {
			return rest[:i], kind, rest[i+len(kind)+2:], true
		}
	}
	return "", "", "", false
}

// accepts says whether the Accept headers allow a media type. None at all
// allow every type (RFC 9110, section 12.5.1).
func accepts(r *http.Request, mediaType string) bool {
	values := r.Header.Values("Accept")
	for _, item := range strings.Split(strings.Join(values, ","), ",") {
		item, _, _ = strings.Cut(item, ";")
		if item = strings.TrimSpace(item); item == mediaType || item == "*/*" {
			return true
		}
	}
	return len(values) == 0
}

// ociError answers with the error body of the distribution specification.
func ociError(rw http.ResponseWriter, r *http.Request, status int, code, message string) {
	type item struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	body, _ := json.Marshal(map[string][]item{"errors": {{code, message}}})
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	rw.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = rw.Write(body)
	}
}

// blanks reads as spaces without end.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
