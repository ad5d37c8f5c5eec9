package registry

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"html"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// The values of [classify.HTTPAnswer].Answerer.
const (
	AnswererRegistry    = "registry"
	AnswererObjectStore = "object-store"
	AnswererHTML        = "html"
	AnswererProxy       = "proxy"
	AnswererUnknown     = "unknown"
)

const (
	maxCodes   = 8
	maxMessage = 300
	// maxAnswerTime bounds a body that drips in; the words of an error are not worth the
	// budget of the pull.
	maxAnswerTime = 5 * time.Second
)

// ReadAnswer reads an answer that the pull cannot use: who wrote it, and its own words. It
// reads at most [MaxErrorBody], begins no read after 5 s, and closes the body. A body that
// breaks off or stalls yields what came.
func ReadAnswer(resp *http.Response, op classify.Operation) *classify.HTTPAnswer {
	raw := readSome(resp.Body)
	_ = resp.Body.Close()
	a := &classify.HTTPAnswer{Operation: op, Status: resp.StatusCode}
	if req := resp.Request; req != nil {
		a.Host, a.URL, a.Method = req.URL.Host, RedactURL(req.URL), req.Method
		a.Credentialed = req.Header.Get("Authorization") != ""
	}
	a.Answerer, a.Codes, a.Message = fingerprint(resp.StatusCode, resp.Header, raw)
	return a
}

func readSome(r io.Reader) []byte {
	var raw []byte
	buf := make([]byte, 4<<10)
	for start := time.Now(); len(raw) < MaxErrorBody && time.Since(start) < maxAnswerTime; {
		n, err := r.Read(buf[:min(len(buf), MaxErrorBody-len(raw))])
		raw = append(raw, buf[:n]...)
		if err != nil {
			break
		}
	}
	return raw
}

// fingerprint says who wrote an answer. A registry is known by the error JSON of the
// distribution specification or by its version header; an object store by its XML; a page
// is a page whatever its status.
func fingerprint(status int, h http.Header, raw []byte) (answerer string, codes []string, message string) {
	trimmed := trim(raw)
	if codes, message, ok := registryErrors(trimmed); ok {
		return AnswererRegistry, codes, message
	}
	if code, message, ok := storeError(trimmed); ok {
		return AnswererObjectStore, []string{code}, message
	}
	if status == http.StatusProxyAuthRequired {
		return AnswererProxy, nil, classify.Redact(text(trimmed), maxMessage)
	}
	if isHTML(h, trimmed) {
		return AnswererHTML, nil, classify.Redact(title(trimmed), maxMessage)
	}
	if h.Get("Docker-Distribution-Api-Version") != "" {
		return AnswererRegistry, nil, classify.Redact(text(trimmed), maxMessage)
	}
	if code := h.Get("X-Ms-Error-Code"); code != "" { // all that Azure's stores say to a HEAD
		return AnswererObjectStore, []string{classify.Redact(code, 64)}, classify.Redact(text(trimmed), maxMessage)
	}
	for name := range h {
		if isStoreHeader(name) {
			return AnswererObjectStore, nil, classify.Redact(text(trimmed), maxMessage)
		}
	}
	return AnswererUnknown, nil, classify.Redact(text(trimmed), maxMessage)
}

// isStoreHeader knows the stores by their own headers. X-Amz-Cf-* comes from the CloudFront
// network, which stands before registries too.
func isStoreHeader(name string) bool {
	return strings.HasPrefix(name, "X-Ms-Blob-") || strings.HasPrefix(name, "X-Goog-") ||
		strings.HasPrefix(name, "X-Amz-") && !strings.HasPrefix(name, "X-Amz-Cf-")
}

// trim takes white space and the byte order mark, which Azure sends, off a body.
func trim(raw []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\ufeff")))
}

// registryErrors reads {"errors":[{code,message,detail}]} of the distribution
// specification, and the {"details": "..."} that token servers write.
func registryErrors(raw []byte) (codes []string, message string, ok bool) {
	if !bytes.HasPrefix(raw, []byte("{")) {
		return nil, "", false
	}
	var doc struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
		Details string `json:"details"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return nil, "", false
	}
	var words []string
	for _, e := range doc.Errors[:min(len(doc.Errors), maxCodes)] {
		if e.Code != "" {
			codes = append(codes, classify.Redact(e.Code, 64))
		}
		if e.Message != "" {
			words = append(words, e.Message)
		}
	}
	if doc.Details != "" {
		words = append(words, doc.Details)
	}
	if len(codes) == 0 && len(words) == 0 {
		return nil, "", false
	}
	return codes, classify.Redact(strings.Join(words, "; "), maxMessage), true
}

// storeError reads the XML that S3, Azure Blob Storage and Google Cloud Storage answer
// with: <Error><Code>…</Code><Message>…</Message></Error>.
func storeError(raw []byte) (code, message string, ok bool) {
	if !bytes.HasPrefix(raw, []byte("<")) {
		return "", "", false
	}
	var doc struct {
		XMLName xml.Name `xml:"Error"`
		Code    string   `xml:"Code"`
		Message string   `xml:"Message"`
	}
	if xml.Unmarshal(raw, &doc) != nil || doc.Code == "" {
		return "", "", false
	}
	return classify.Redact(doc.Code, 64), classify.Redact(text([]byte(doc.Message)), maxMessage), true
}

// isHTML reports whether an answer is a page: by its type, or by how it begins. A bad
// parameter of the type ("text/html; charset") leaves the type readable.
func isHTML(h http.Header, raw []byte) bool {
	if t, _, _ := mime.ParseMediaType(h.Get("Content-Type")); t == "text/html" || t == "application/xhtml+xml" {
		return true
	}
	return strings.HasPrefix(http.DetectContentType(raw), "text/html")
}

// isPage recognises a web page by its type or by how it begins.
func isPage(mediaType string, body []byte) bool {
	if mediaType == "text/html" || mediaType == "application/xhtml+xml" {
		return true
	}
	start := strings.ToLower(string(bytes.TrimSpace(body[:min(len(body), 256)])))
	return strings.HasPrefix(start, "<!doctype html") || strings.HasPrefix(start, "<html")
}

// title returns the title of a page, which is where block pages and portals say what they
// are.
func title(raw []byte) string {
	_, rest, ok := cutTag(raw, "<title")
	if !ok {
		return ""
	}
	_, rest, ok = bytes.Cut(rest, []byte(">")) // attributes
	if !ok {
		return ""
	}
	if inside, _, ok := cutTag(rest, "</title"); ok {
		rest = inside
	}
	return html.UnescapeString(text(rest))
}

// cutTag cuts raw at an ASCII tag in any case. bytes.ToLower will not do: it changes the
// length of what is not UTF-8.
func cutTag(raw []byte, tag string) (before, after []byte, found bool) {
	for at := 0; ; at++ {
		i := bytes.IndexByte(raw[at:], '<')
		if i < 0 || len(raw)-at-i < len(tag) {
			return raw, nil, false
		}
		if at += i; strings.EqualFold(string(raw[at:at+len(tag)]), tag) {
			return raw[:at], raw[at+len(tag):], true
		}
	}
}

// text folds white space, so that a message is one line.
func text(raw []byte) string { return strings.Join(strings.Fields(string(raw)), " ") }
