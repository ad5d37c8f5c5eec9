package registry

import (
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// ChallengeProduct names the registry that a challenge of host is typical of, "" if none is
// recognised. It is a label for people and decides nothing.
func ChallengeProduct(host string, ch classify.Challenge) string {
	_, rest, _ := strings.Cut(ch.Realm, "://")
	realm, path, _ := strings.Cut(rest, "/")
	path = "/" + path
	host, _, _ = strings.Cut(strings.ToLower(host), ":")
	in := func(s string, domains ...string) bool {
		return slices.ContainsFunc(domains, func(d string) bool { return s == d || strings.HasSuffix(s, "."+d) })
	}
	switch {
	case path == "/oauth2/token" && in(ch.Service, "azurecr.io", "azurecr.cn", "azurecr.us"), in(host, "azurecr.io", "azurecr.cn", "azurecr.us"):
		return "Azure Container Registry"
	case strings.Contains(host, ".dkr.ecr.") && in(host, "amazonaws.com", "amazonaws.com.cn"), ch.Service == "ecr.amazonaws.com":
		return "Amazon ECR"
	case in(host, "pkg.dev", "gcr.io"), in(ch.Service, "pkg.dev", "gcr.io"):
		return "Google Artifact Registry"
	case realm == "auth.docker.io", ch.Service == "registry.docker.io":
		return "Docker Hub"
	case in(host, "ghcr.io"):
		return "GitHub Packages"
	case ch.Service == "harbor-registry" || strings.HasSuffix(path, "/service/token"):
		return "Harbor"
	case ch.Service == "container_registry" && strings.HasSuffix(path, "/jwt/auth"):
		return "GitLab"
	case strings.Contains(path, "/artifactory/") || strings.HasSuffix(path, "/v2/token") && strings.Contains(path, "/api/docker/"):
		return "Artifactory"
	case in(host, "quay.io") || path == "/v2/auth":
		return "Quay"
	}
	return ""
}
