package noderuntime

import (
	"path"
	"strings"

	"github.com/pullwalk/pullwalk/internal/registry"
)

// Hint is a host that pulls from a registry are known to touch, by the provider's
// documents. It is a hint and never the truth: lists of this kind have aged again
// and again, only a walk shows what an image needs.
type Hint struct {
	Host string // a name, or a pattern with "*" for one or more labels
	Role registry.Role
	Ref  string // the document that says so
}

// Concrete reports whether the hint is a host that can be asked and no pattern.
func (h Hint) Concrete() bool { return !strings.Contains(h.Host, "*") }

// provider is one known shape of registry hosts.
type provider struct {
	pattern string
	name    string
	hints   func(host string) []Hint
}

const (
	acrDoc    = "https://learn.microsoft.com/azure/container-registry/container-registry-firewall-access-rules"
	mcrDoc    = "https://github.com/microsoft/containerregistry/blob/main/docs/client-firewall-rules.md"
	ecrDoc    = "https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html"
	hubDoc    = "https://docs.docker.com/desktop/setup/allow-list/"
	quayDoc   = "https://access.redhat.com/articles/5925591"
	garDoc    = "https://cloud.google.com/artifact-registry/docs/securing-with-vpc-sc"
	ghcrDoc   = "https://docs.github.com/packages"
	gitlabDoc = "https://docs.gitlab.com/user/gitlab_com/"
)

func fixed(hints ...Hint) func(string) []Hint { return func(string) []Hint { return hints } }

var providers = []provider{
	{"*.data.azurecr.io", "Azure Container Registry", nil},
	{"*.azurecr.*", "Azure Container Registry", func(host string) []Hint {
		name, rest, _ := strings.Cut(host, ".")
		return []Hint{{name + ".*.data." + rest, registry.RoleBlob, acrDoc}, {"*.blob.core.windows.net", registry.RoleBlob, acrDoc}}
	}},
	{"mcr.microsoft.com", "Microsoft Container Registry", fixed(Hint{"*.data.mcr.microsoft.com", registry.RoleBlob, mcrDoc})},
	{"*.dkr.ecr.*.amazonaws.com*", "Amazon ECR", func(host string) []Hint {
		parts := strings.Split(host, ".")
		if len(parts) < 6 {
			return nil
		}
		region := parts[3]
		return []Hint{{"prod-" + region + "-starport-layer-bucket.s3." + region + ".amazonaws.com", registry.RoleBlob, ecrDoc}, {"api.ecr." + region + ".amazonaws.com", registry.RoleToken, ecrDoc}}
	}},
	{"public.ecr.aws", "Amazon ECR Public", fixed(Hint{"*.cloudfront.net", registry.RoleBlob, ecrDoc})},
	{"registry-1.docker.io", "Docker Hub", fixed(Hint{"auth.docker.io", registry.RoleToken, hubDoc}, Hint{"production.cloudflare.docker.com", registry.RoleBlob, hubDoc},
		Hint{"production.cloudfront.docker.com", registry.RoleBlob, hubDoc}, Hint{"docker-images-prod.*.r2.cloudflarestorage.com", registry.RoleBlob, hubDoc})},
	{"auth.docker.io", "Docker Hub", nil},
	{"production.*.docker.com", "Docker Hub", nil},
	{"*.r2.cloudflarestorage.com", "Cloudflare R2", nil},
	{"quay.io", "Quay", fixed(Hint{"cdn*.quay.io", registry.RoleBlob, quayDoc})},
	{"*.quay.io", "Quay", nil},
	{"ghcr.io", "GitHub Packages", fixed(Hint{"pkg-containers.githubusercontent.com", registry.RoleBlob, ghcrDoc})},
	{"registry.gitlab.com", "GitLab", fixed(Hint{"gitlab.com", registry.RoleToken, gitlabDoc}, Hint{"cdn.registry.gitlab-static.net", registry.RoleBlob, gitlabDoc})},
	{"*-docker.pkg.dev", "Google Artifact Registry", fixed(Hint{"storage.googleapis.com", registry.RoleBlob, garDoc})},
	{"gcr.io", "Google Container Registry", fixed(Hint{"storage.googleapis.com", registry.RoleBlob, garDoc})},
	{"*.gcr.io", "Google Container Registry", fixed(Hint{"storage.googleapis.com", registry.RoleBlob, garDoc})},
	{"registry.k8s.io", "the Kubernetes project", fixed(Hint{"*-docker.pkg.dev", registry.RoleBlob, "https://github.com/kubernetes/registry.k8s.io"}, Hint{"prod-registry-k8s-io-*.s3.dualstack.*.amazonaws.com", registry.RoleBlob, "https://github.com/kubernetes/registry.k8s.io"})},
	{"*.blob.core.windows.net", "Azure Blob Storage", nil},
	{"*.s3.*amazonaws.com", "Amazon S3", nil},
	{"s3.*amazonaws.com", "Amazon S3", nil},
	{"storage.googleapis.com", "Google Cloud Storage", nil},
	{"*.cloudfront.net", "Amazon CloudFront", nil},
}

// Known returns whose host this is by its shape, "" if that is not known, and
// which other hosts pulls from such a registry are known to touch. A name of this
// shape proves nothing about who answers there.
func Known(host string) (provider string, hints []Hint) {
	host = strings.ToLower(host)
	for _, p := range providers {
		if ok, _ := path.Match(p.pattern, host); ok { // host names hold no slash
			if p.hints != nil {
				hints = p.hints(host)
			}
			return p.name, hints
		}
	}
	return "", nil
}
