package tlsauth

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// secret builds a pull secret whose users are named after their keys.
func secret(tb testing.TB, keys ...string) []byte {
	tb.Helper()
	auths := map[string]any{}
	for _, k := range keys {
		auths[k] = map[string]string{"username": "user " + k, "password": "pass:word"}
	}
	data, err := json.Marshal(map[string]any{"auths": auths})
	require.NoError(tb, err)
	return data
}

// The kubelet's rules, which differ from those of docker.
func TestKubeletMatching(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		keys  []string
		image string
		want  []string // users in order
		miss  string
	}{
		{"host", []string{"registry.corp.test"}, "registry.corp.test/team/app:1", []string{"registry.corp.test"}, ""},
		{"digest", []string{"registry.corp.test"}, "registry.corp.test/team/app@sha256:" + strings.Repeat("a", 64), []string{"registry.corp.test"}, ""},
		{"scheme", []string{"https://registry.corp.test"}, "registry.corp.test/app", []string{"https://registry.corp.test"}, ""},
		{"http scheme", []string{"http://registry.corp.test/"}, "registry.corp.test/app", []string{"http://registry.corp.test/"}, ""},
		{"v1 and v2", []string{"https://registry.corp.test/v1/", "registry.corp.test/v2/team"}, "registry.corp.test/team/app", []string{"registry.corp.test/v2/team", "https://registry.corp.test/v1/"}, ""},
		{"v2 without a slash after it stays", []string{"registry.corp.test/v2"}, "registry.corp.test/app", nil, `paths that begin with "/v2"`},
		{"equal port", []string{"registry.corp.test:5000"}, "registry.corp.test:5000/app", []string{"registry.corp.test:5000"}, ""},
		{"443 is not nothing", []string{"registry.corp.test:443"}, "registry.corp.test/app", nil, "has port 443 and the image names no port"},
		{"nothing is not 443", []string{"registry.corp.test"}, "registry.corp.test:443/app", nil, "has no port and the image names port 443"},
		{"star is one label", []string{"*.corp.test"}, "registry.corp.test/app", []string{"*.corp.test"}, ""},
		{"star is not two labels", []string{"*.corp.test"}, "a.registry.corp.test/app", nil, "has 3 host labels"},
		{"star within a label", []string{"reg*.corp.test"}, "registry.corp.test/app", []string{"reg*.corp.test"}, ""},
		{"no star in the path", []string{"registry.corp.test/*"}, "registry.corp.test/app", nil, "letter by letter"},
		{"path", []string{"registry.corp.test/team"}, "registry.corp.test/team/app", []string{"registry.corp.test/team"}, ""},
		{"path prefix without boundary", []string{"registry.corp.test/team"}, "registry.corp.test/team2/app", []string{"registry.corp.test/team"}, ""},
		{"other path", []string{"registry.corp.test/other"}, "registry.corp.test/team/app", nil, `paths that begin with "/other"`},
		{"longest first", []string{"registry.corp.test", "registry.corp.test/team/app", "registry.corp.test/team"}, "registry.corp.test/team/app",
			[]string{"registry.corp.test/team/app", "registry.corp.test/team", "registry.corp.test"}, ""},
		{"the order is lexical, not by length", []string{"*.corp.test/team", "registry.corp.test"}, "registry.corp.test/team/app", []string{"registry.corp.test", "*.corp.test/team"}, ""},
		{"case", []string{"Registry.corp.test"}, "registry.corp.test/app", nil, "upper and lower case"},
		{"another host", []string{"gateway.corp.test", "quay.example.com"}, "registry.corp.test/app", nil, `key "gateway.corp.test" is for another host`},
		{"bare Docker Hub name", []string{"https://index.docker.io/v1/"}, "alpine:3", []string{"https://index.docker.io/v1/"}, ""},
		{"docker.io", []string{"docker.io"}, "docker.io/library/alpine", []string{"docker.io"}, ""},
		{"Docker Hub fallback only without a match", []string{"docker.io", "index.docker.io"}, "alpine", []string{"docker.io"}, ""},
		{"registry-1 is another host", []string{"registry-1.docker.io"}, "alpine", nil, "registry-1.docker.io"},
		{"fallback not for others", []string{"index.docker.io"}, "registry.corp.test/app", nil, "another host"},
		{"no key", nil, "registry.corp.test/app", nil, "holds no key"},
		{"bad pattern", []string{"[.corp.test"}, "a.corp.test/app", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k, err := DockerConfig(secret(t, tt.keys...))
			require.NoError(t, err)
			creds, err := k.Credentials(t.Context(), tt.image)
			require.NoError(t, err)
			var users []string
			for _, c := range creds {
				users = append(users, strings.TrimPrefix(c.Authn.Username, "user "))
				assert.Equal(t, "pass:word", c.Authn.Password)
				assert.Equal(t, "dockerconfigjson key "+users[len(users)-1], c.Source)
			}
			assert.Equal(t, tt.want, users)
			if len(tt.want) > 0 {
				assert.Empty(t, k.NearestMiss(tt.image))
			} else {
				assert.Contains(t, k.NearestMiss(tt.image), tt.miss)
			}
			// authn.Keychain gives the first of them.
			ref, err := name.ParseReference(tt.image)
			require.NoError(t, err)
			auth, err := k.Resolve(ref.Context())
			require.NoError(t, err)
			config, err := auth.Authorization()
			require.NoError(t, err)
			if len(tt.want) == 0 {
				assert.Equal(t, authn.Anonymous, auth)
			} else {
				assert.Equal(t, "user "+tt.want[0], config.Username)
			}
		})
	}
}

func TestDockerConfigReadsWhatTheKubeletReads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, data     string
		user, password string
		source         string
	}{
		{"user and password", `{"auths":{"r.corp.test":{"username":"u","password":"p","email":"a@corp.test"}}}`, "u", "p", ""},
		{"auth wins", `{"auths":{"r.corp.test":{"username":"u","password":"p","auth":"eDp5"}}}`, "x", "y", ""},
		{"password with a colon", `{"auths":{"r.corp.test":{"auth":"eDp5Ono="}}}`, "x", "y:z", ""},
		{"unpadded", `{"auths":{"r.corp.test":{"auth":"eDp5eg"}}}`, "x", "yz", ""},
		{"legacy", `{"https://r.corp.test/v1/":{"auth":"eDp5"}}`, "x", "y", ""},
		{"identity token is ignored", `{"auths":{"r.corp.test":{"identitytoken":"s3cr3t"}}}`, "", "", "ignores its identity token"},
	} {
		k, err := DockerConfig([]byte(tt.data))
		require.NoError(t, err, tt.name)
		creds, err := k.Credentials(t.Context(), "r.corp.test/app")
		require.NoError(t, err, tt.name)
		require.Len(t, creds, 1, tt.name)
		assert.Equal(t, authn.AuthConfig{Username: tt.user, Password: tt.password}, creds[0].Authn, tt.name)
		assert.Contains(t, creds[0].Source, tt.source, tt.name)
	}
	for _, data := range []string{`{}`, `{"auths":{}}`, `{"auths":null}`, `null`, `{"credsStore":"desktop"}`, `{"credHelpers":{"r.corp.test":"x"}}`} {
		k, err := DockerConfig([]byte(data))
		require.NoError(t, err, data)
		creds, err := k.Credentials(t.Context(), "r.corp.test/app")
		require.NoError(t, err)
		assert.Empty(t, creds)
		assert.NotEmpty(t, k.NearestMiss("r.corp.test/app"), data)
	}
}

// Errors name what is wrong and print nothing of the content.
func TestDockerConfigErrors(t *testing.T) {
	t.Parallel()
	for data, says := range map[string]string{
		"":                                   "byte 0",
		"s3cr3t":                             "byte 1",
		`{"auths":`:                          "byte 9",
		`["s3cr3t"]`:                         "an object is expected",
		`{"auths":7}`:                        "an object is expected",
		`{"auths":{"r.corp.test":"s3cr3t"}}`: `entry "r.corp.test"`,
		`{"auths":{"r.corp.test":{"password":7}}}`:               "a string is expected",
		`{"auths":{"r.corp.test":{"auth":"s3cr3t!!"}}}`:          "base64",
		`{"auths":{"r.corp.test":{"auth":"czNjcjN0"}}}`:          `"user:password"`,
		`{"r.corp.test":{"auth":"czNjcjN0"},"x":{}}`:             `"user:password"`,
		`{"auths":{"r.corp.test":{"username":"u","email":[1]}}}`: "a string is expected",
	} {
		_, err := DockerConfig([]byte(data))
		require.ErrorContains(t, err, says, data)
		assert.NotContains(t, err.Error(), "s3cr3t")
		assert.NotContains(t, err.Error(), "czNj")
	}
	_, err := DockerConfig(make([]byte, maxDockerConfig+1))
	require.Error(t, err)
}

func TestNothingPrintsASecret(t *testing.T) {
	t.Parallel()
	k, err := DockerConfig([]byte(`{"auths":{"r.corp.test":{"username":"u","password":"s3cr3t"}}}`))
	require.NoError(t, err)
	creds, err := k.Credentials(t.Context(), "r.corp.test/app")
	require.NoError(t, err)
	c := Checker{Keychain: k}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{k, creds, creds[0], &creds[0], c, &c} {
			assert.NotContains(t, fmt.Sprintf(verb, v), "s3cr3t")
		}
	}
	data, err := json.Marshal(creds)
	require.NoError(t, err)
	assert.NotContains(t, string(data), "s3cr3t")
}

func TestNilKeychain(t *testing.T) {
	t.Parallel()
	var k *Keychain
	assert.Empty(t, k.lookup("r.corp.test/app"))
	assert.Empty(t, k.NearestMiss("r.corp.test/app"))
	assert.NotEmpty(t, k.String())
	_, err := (&Keychain{}).Credentials(t.Context(), "Not An Image")
	assert.Error(t, err)
}

func FuzzDockerConfig(f *testing.F) {
	f.Add(secret(f, "registry.corp.test/team", "*.corp.test", "https://index.docker.io/v1/"), "registry.corp.test/team/app")
	f.Add([]byte(`{"auths":{"[::1]:5000/x":{"auth":"eDp5"}}}`), "alpine")
	f.Add([]byte(`{"a":{"auth":"eDp5"}}`), "a/b:c@d")
	f.Add([]byte(`{"AUTHS":{"%zz":{}}}`), "x")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		k, err := DockerConfig(data)
		if err != nil {
			return
		}
		creds, err := k.Credentials(t.Context(), image)
		if err != nil {
			return
		}
		if miss := k.NearestMiss(image); (miss != "") && len(creds) > 0 {
			t.Fatalf("%d credentials match, and yet %q", len(creds), miss)
		}
	})
}

func FuzzMatches(f *testing.F) {
	f.Add("*.corp.test:5000/team", "registry.corp.test:5000/team/app")
	f.Add("[a-z.corp.test", "a.corp.test/x")
	f.Add("[::1]:5000", "[::1]:5000/x")
	f.Fuzz(func(t *testing.T, key, repository string) {
		if !matches(key, repository) {
			return
		}
		k, _ := takeApart(key)
		r, _ := takeApart(repository)
		if k.port != r.port || len(k.labels) != len(r.labels) || !strings.HasPrefix(r.path, k.path) {
			t.Fatalf("%q must not match %q", key, repository)
		}
	})
}
