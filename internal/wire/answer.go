package wire

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"mime"
	"net/http"
	"strings"

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
)

// ReadAnswer reads an answer that the pull cannot use: who wrote it, and its own
// words. It reads at most [MaxErrorBody] and closes the body. A body that breaks
// off or stalls yields what came.
func ReadAnswer(resp *http.Response, op classify.Operation) *classify.HTTPAnswer {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, MaxErrorBody))
	_ = resp.Body.Close()
	a := &classify.HTTPAnswer{Operation: op, Status: resp.StatusCode}
	if req := resp.Request; req != nil {
		a.Host, a.URL, a.Method = req.URL.Host, RedactURL(req.URL), req.Method
		a.Credentialed = req.Header.Get("Authorization") != ""
	}
	a.Answerer, a.Codes, a.Message = fingerprint(resp.StatusCode, resp.Header, raw)
	return a
}

// fingerprint says who wrote an answer. A registry is known by the error JSON
// of the distribution specification or by its version header; an object store
// by its XML; a page is a page whatever its status.
func fingerprint(status int, h http.Header, raw []byte) (answerer string, codes []string, message string) {
	trimmed := bytes.TrimSpace(raw)
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
	for name := range h {
		if strings.HasPrefix(name, "X-Amz-") || strings.HasPrefix(name, "X-Ms-Blob-") || strings.HasPrefix(name, "X-Goog-") {
			return AnswererObjectStore, nil, classify.Redact(text(trimmed), maxMessage)
		}
	}
	return AnswererUnknown, nil, classify.Redact(text(trimmed), maxMessage)
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

// storeError reads the XML that S3, Azure Blob Storage and Google Cloud Storage
// answer with: <Error><Code>…</Code><Message>…</Message></Error>.
func storeError(raw []byte) (code, message string, ok bool) {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
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

// IsHTML says whether an answer is a page: by its type, or by how it begins.
func isHTML(h http.Header, raw []byte) bool {
	if t, _, err := mime.ParseMediaType(h.Get("Content-Type")); err == nil && (t == "text/html" || t == "application/xhtml+xml") {
		return true
	}
	start := bytes.ToLower(raw[:min(len(raw), 64)])
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}

// title returns the title of a page, which is where block pages and portals say
// what they are.
func title(raw []byte) string {
	lower := bytes.ToLower(raw)
	i := bytes.Index(lower, []byte("<title>"))
	if i < 0 {
		return ""
	}
	rest := raw[i+len("<title>"):]
	if j := bytes.Index(bytes.ToLower(rest), []byte("</title>")); j >= 0 {
		rest = rest[:j]
	}
	return text(rest)
}

// text folds white space, so that a message is one line.
func text(raw []byte) string { return strings.Join(strings.Fields(string(raw)), " ") }
