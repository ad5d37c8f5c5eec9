package registry

import (
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// ChallengeProduct names the registry that a challenge is typical of, "" if none is
// recognised. It is a label for people and decides nothing.
func ChallengeProduct(host string, ch classify.Challenge) string {
	_, rest, _ := strings.Cut(ch.Realm, "://")
	realmHost, path, _ := strings.Cut(rest, "/")
	path = "/" + path
	host, _, _ = strings.Cut(strings.ToLower(host), ":")
	ends := func(s string, suffixes ...string) bool {
		for _, suffix := range suffixes {
			if s == suffix || strings.HasSuffix(s, "."+suffix) {
				return true
			}
		}
		return false
	}
	switch {
	case path == "/oauth2/token" && ends(ch.Service, "azurecr.io", "azurecr.cn", "azurecr.us"), ends(host, "azurecr.io", "azurecr.cn", "azurecr.us"):
		return "Azure Container Registry"
	case strings.Contains(host, ".dkr.ecr.") && ends(host, "amazonaws.com", "amazonaws.com.cn"), ch.Service == "ecr.amazonaws.com":
		return "Amazon ECR"
	case ends(host, "pkg.dev", "gcr.io"), ends(ch.Service, "pkg.dev", "gcr.io"):
		return "Google Artifact Registry"
	case realmHost == "auth.docker.io", ch.Service == "registry.docker.io":
		return "Docker Hub"
	case ends(host, "ghcr.io"):
		return "GitHub Packages"
	case ch.Service == "harbor-registry" || strings.HasSuffix(path, "/service/token"):
		return "Harbor"
	case ch.Service == "container_registry" && strings.HasSuffix(path, "/jwt/auth"):
		return "GitLab"
	case strings.Contains(path, "/artifactory/") || strings.HasSuffix(path, "/v2/token") && strings.Contains(path, "/api/docker/"):
		return "Artifactory"
	case ends(host, "quay.io") || path == "/v2/auth":
		return "Quay"
	}
	return ""
}
