package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pullwalk/pullwalk/classify"
)

// JudgeToken alone: exchanges that somebody else made.
func TestJudgeToken(t *testing.T) {
	t.Parallel()
	ch := Challenge{Scheme: "bearer", Realm: "https://auth.corp.test/token", Service: "registry.corp.test"}
	for _, tt := range []struct {
		name   string
		res    TokenResult
		want   []classify.Cause
		unsure bool
	}{
		{"issued", TokenResult{HasToken: true, Granted: []string{"pull"}, Readable: true}, nil, false},
		{"everything granted", TokenResult{HasToken: true, Granted: []string{"*"}, Readable: true}, []classify.Cause{classify.IdentityOverBroad}, false},
		{"opaque", TokenResult{HasToken: true}, nil, false},
		{"nothing granted", TokenResult{HasToken: true, Readable: true}, []classify.Cause{classify.IdentityInsufficientScope}, false},
		{"silence", TokenResult{Err: &classify.StageError{Stage: classify.StageHeaders, Endpoint: "auth.corp.test", Limit: time.Second, Err: context.DeadlineExceeded}},
			[]classify.Cause{classify.EndpointResponseHeaderTimeout}, false},
		{"a finding of the caller's own probes", TokenResult{Err: fmt.Errorf("dial: %w", classify.New(classify.DNSNXDOMAIN, ""))}, []classify.Cause{classify.DNSNXDOMAIN}, false},
		{"the caller's end", TokenResult{Err: context.Canceled}, nil, true},
		{"gone realm", TokenResult{Err: &classify.HTTPAnswer{Operation: classify.OperationFetchToken, Host: "auth.corp.test", Status: 404}}, []classify.Cause{classify.EndpointBadRealm}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := JudgeToken(ch, CredentialInfo{Source: "anonymous"}, tt.res, "team/app")
			got := causes(r.Findings())
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.unsure, r.Inconclusive != "")
			assert.False(t, r.Read)
			assert.False(t, r.Held(), "no read was seen")
			assert.Equal(t, "team/app", r.Repository)
		})
	}
}

func TestProducts(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]struct{ host, realm, service string }{
		"Azure Container Registry": {{"corp.azurecr.io", "https://corp.azurecr.io/oauth2/token", "corp.azurecr.io"}},
		"Amazon ECR":               {{"123456789012.dkr.ecr.eu-west-1.amazonaws.com", "", "ecr.amazonaws.com"}, {"123456789012.dkr.ecr.eu-west-1.amazonaws.com", "", ""}},
		"Google Artifact Registry": {{"europe-docker.pkg.dev", "https://europe-docker.pkg.dev/v2/token", "europe-docker.pkg.dev"}, {"gcr.io", "https://gcr.io/v2/token", "gcr.io"}},
		"Docker Hub":               {{"registry-1.docker.io", "https://auth.docker.io/token", "registry.docker.io"}},
		"GitHub Packages":          {{"ghcr.io", "https://ghcr.io/token", "ghcr.io"}},
		"Harbor":                   {{"harbor.corp.test", "https://harbor.corp.test/service/token", "harbor-registry"}},
		"GitLab":                   {{"registry.gitlab.corp.test", "https://gitlab.corp.test/jwt/auth", "container_registry"}},
		"Artifactory":              {{"docker.corp.test", "https://docker.corp.test/artifactory/api/docker/docker-local/v2/token", "docker.corp.test"}, {"docker.corp.test", "https://docker.corp.test/api/docker/local/v2/token", ""}},
		"Quay":                     {{"quay.io", "https://quay.io/v2/auth", "quay.io"}},
		"":                         {{"registry.corp.test", "https://auth.corp.test/token", "registry.corp.test"}, {"", "", ""}},
	} {
		for _, c := range all {
			assert.Equal(t, want, ChallengeProduct(c.host, classify.Challenge{Realm: c.realm, Service: c.service}), c)
		}
	}
}

// Whatever a registry and a token server say, it ends in a report that says
// something and gives nothing away.
func FuzzJudgeToken(f *testing.F) {
	f.Add("bearer", "https://auth.corp.test/token", "registry.corp.test", "repository:team/app:pull", 401, "pull", true)
	f.Add("basic", "Registry", "", "", 200, "", false)
	f.Add("bearer", "http://u:s3cr3tregistry.[::1]:99999/%zz?token=s3cr3t", "\x1b[31m", "\n", 404, "*", true)
	f.Add("negotiate", "", "", "", 0, "push", false)
	f.Fuzz(func(t *testing.T, scheme, realm, service, scope string, status int, granted string, credentialed bool) {
		ch := Challenge{Scheme: scheme, Realm: realm, Service: service, Scope: scope}
		for _, res := range []TokenResult{
			{HasToken: true, Readable: true, Granted: []string{granted}},
			{Err: &classify.HTTPAnswer{Operation: classify.OperationFetchToken, Host: "auth.corp.test", Status: status, Credentialed: credentialed, Message: granted}},
		} {
			r := JudgeToken(ch, CredentialInfo{Source: "keychain", Username: "robot"}, res, "team/app")
			if !r.TokenIssued && r.Inconclusive == "" && len(r.Findings()) == 0 && scheme != "basic" {
				t.Fatal("neither a token nor a reason")
			}
			f := JudgeRefusal(&classify.HTTPAnswer{Host: "registry.corp.test", Status: status, Credentialed: credentialed}, r, []Challenge{ch})
			if f.Cause == "" || f.Summary == "" {
				t.Fatalf("%+v", f)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(r.Challenge.Realm+r.Challenge.Service+r.Challenge.Scope, "\x1b\n") {
				t.Fatalf("%+v", r.Challenge)
			}
		}
	})
}
