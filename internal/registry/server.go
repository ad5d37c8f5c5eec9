package registry

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// correlationID returns the id under which the server's owner finds the request in the
// server's own log, "" if none was sent.
func correlationID(h http.Header) string {
	for _, name := range []string{"X-Ms-Correlation-Request-Id", "X-Ms-Request-Id", "X-Amz-Request-Id", "X-Amzn-Requestid", "X-Request-Id", "X-Correlation-Id"} {
		if v := h.Get(name); v != "" {
			return classify.Redact(v, 80)
		}
	}
	return ""
}

// rateLimit reads RateLimit-Limit and RateLimit-Remaining ("100;w=21600", as Docker Hub
// sends them), the X- forms, and Retry-After.
func rateLimit(h http.Header) *classify.RateLimit {
	var r classify.RateLimit
	limit, window, okLimit := quota(cmp.Or(h.Get("Ratelimit-Limit"), h.Get("X-Ratelimit-Limit")))
	remaining, w2, okRemaining := quota(cmp.Or(h.Get("Ratelimit-Remaining"), h.Get("X-Ratelimit-Remaining")))
	r.Limit, r.Remaining, r.WindowMS = limit, remaining, cmp.Or(window, w2)*1000
	if v := h.Get("Retry-After"); v != "" {
		if n, err := strconv.ParseInt(v, 10, 32); err == nil && n >= 0 {
			r.RetryMS = n * 1000
		} else if at, err := http.ParseTime(v); err == nil {
			r.RetryMS = max(time.Until(at).Milliseconds(), 0)
		}
	}
	r.Source = classify.Redact(h.Get("Docker-Ratelimit-Source"), 64)
	r.Exhausted = okRemaining && remaining == 0
	if !okLimit && !okRemaining && r.RetryMS == 0 {
		return nil
	}
	return &r
}

// quota reads "100" or "100;w=21600".
func quota(v string) (n, window int64, ok bool) {
	head, params, _ := strings.Cut(v, ";")
	n, err := strconv.ParseInt(strings.TrimSpace(head), 10, 64)
	if err != nil || n < 0 {
		return 0, 0, false
	}
	param, _, _ := strings.Cut(params, ";")
	if w, found := strings.CutPrefix(strings.TrimSpace(param), "w="); found {
		window, _ = strconv.ParseInt(w, 10, 32)
	}
	return n, max(window, 0), true
}

// products are fields that only one kind of server sends. They say who answered where the
// status alone does not, and prove nothing: any proxy may add them.
var products = []struct{ field, prefix, name string }{
	{"X-Squid-Error", "", "squid"},
	{"Cf-Mitigated", "", "Cloudflare challenge"},
	{"X-Ms-Blob-Type", "", "Azure Blob Storage"},
	{"Server", "Windows-Azure-Blob", "Azure Blob Storage"},
	{"X-Goog-Storage-Class", "", "Google Cloud Storage"},
	{"X-Guploader-Uploadid", "", "Google Cloud Storage"},
	{"Server", "AmazonS3", "Amazon S3"},
	{"Server", "MinIO", "MinIO"},
	{"X-Amz-Request-Id", "", "an S3 store"},
	{"X-Harbor-Csrf-Token", "", "Harbor"},
	{"X-Artifactory-Id", "", "Artifactory"},
	{"X-Jfrog-Version", "", "Artifactory"},
	{"Server", "Nexus/", "Nexus"},
	{"Server", "AzureContainerRegistry", "Azure Container Registry"},
	{"X-Quay-Version", "", "Quay"},
	{"Gitlab-Lb", "", "GitLab"},
	{"Docker-Distribution-Api-Version", "", "a registry"},
	{"Server", "squid", "squid"},
	{"Server", "cloudflare", "Cloudflare"},
	{"X-Cache", "", "a cache"},
	{"Server", "nginx", "nginx"},
	{"Server", "Apache", "Apache"},
	{"Server", "envoy", "envoy"},
	{"Server", "istio-envoy", "envoy"},
	{"Server", "awselb", "an AWS load balancer"},
	{"Server", "Microsoft-Azure-Application-Gateway", "Azure Application Gateway"},
	{"Via", "", "a proxy"},
}

func serverProduct(h http.Header) string {
	for _, p := range products {
		if v := h.Get(p.field); v != "" && (p.prefix == "" || strings.HasPrefix(strings.ToLower(v), strings.ToLower(p.prefix))) {
			return p.name
		}
	}
	return ""
}
