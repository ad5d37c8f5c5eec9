package lab

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	tokenPath     = "/token"
	tokenLifetime = 5 * time.Minute
)

// claims are the payload of a token, as the distribution project's token
// specification names them.
type claims struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience string   `json:"aud"`
	Expires  int64    `json:"exp"`
	Issued   int64    `json:"iat"`
	ID       string   `json:"jti"`
	Access   []access `json:"access"`
}

type access struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

func (c claims) allows(repository, action string) bool {
	return slices.ContainsFunc(c.Access, func(a access) bool {
		return a.Type == "repository" && a.Name == repository && slices.Contains(a.Actions, action)
	})
}

// serveToken answers both ways that runtimes ask: GET with Basic, and POST with
// a form (the specification's OAuth2 variant).
func (w *World) serveToken(rw http.ResponseWriter, r *http.Request) {
	faults := w.state()
	if r.URL.Path != tokenPath {
		http.NotFound(rw, r)
		return
	}
	switch r.Method {
	case http.MethodGet:
		w.serveTokenGet(rw, r, faults)
	case http.MethodPost:
		if faults.postStatus != 0 {
			ociError(rw, r, faults.postStatus, "UNSUPPORTED", "no such method here")
			return
		}
		w.serveTokenPost(rw, r, faults)
	default:
		ociError(rw, r, http.StatusMethodNotAllowed, "UNSUPPORTED", "no such method here")
	}
}

func (w *World) serveTokenGet(rw http.ResponseWriter, r *http.Request, faults worldFaults) {
	query := r.URL.Query()
	user, password, given := r.BasicAuth()
	switch {
	case given && !known(user, password), !given && faults.anonymousRefused:
		rw.Header().Set("Www-Authenticate", `Basic realm="corp test"`)
		ociError(rw, r, http.StatusUnauthorized, "UNAUTHORIZED", "incorrect username or password")
		return
	case query.Get("service") != w.Registry.Name:
		ociError(rw, r, http.StatusBadRequest, "UNSUPPORTED", "unknown service")
		return
	}
	token := w.issueToken(user, query["scope"], faults)
	w.answerToken(rw, faults, map[string]any{"token": token, "access_token": token})
}

func (w *World) serveTokenPost(rw http.ResponseWriter, r *http.Request, faults worldFaults) {
	r.Body = http.MaxBytesReader(rw, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		oauthError(rw, http.StatusBadRequest, "invalid_request")
		return
	}
	form := r.PostForm
	switch {
	case form.Get("client_id") == "" || form.Get("service") != w.Registry.Name:
		oauthError(rw, http.StatusBadRequest, "invalid_request")
	case form.Get("grant_type") != "password":
		oauthError(rw, http.StatusBadRequest, "unsupported_grant_type")
	case !known(form.Get("username"), form.Get("password")):
		ociError(rw, r, http.StatusUnauthorized, "UNAUTHORIZED", "incorrect username or password")
	default:
		// The form names all scopes in one value, the query repeats the key.
		scopes := strings.Fields(strings.Join(form["scope"], " "))
		w.answerToken(rw, faults, map[string]any{
			"access_token": w.issueToken(form.Get("username"), scopes, faults),
			"scope":        strings.Join(scopes, " "),
		})
	}
}

func (w *World) answerToken(rw http.ResponseWriter, faults worldFaults, answer map[string]any) {
	answer["expires_in"] = int(tokenLifetime / time.Second)
	answer["issued_at"] = w.now().UTC().Format(time.RFC3339)
	if faults.tokenEmpty {
		answer = map[string]any{}
	}
	body, _ := json.Marshal(answer)
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = rw.Write(body)
}

func known(user, password string) bool { return user == Username && password == Password }

// issueToken grants what the user may do of what was asked. The reader may pull
// Repository; nobody else may do anything, and gets a token that says so.
func (w *World) issueToken(user string, scopes []string, faults worldFaults) string {
	now := w.now()
	c := claims{
		Issuer: w.Token.Name, Subject: user, Audience: w.Registry.Name,
		Expires: now.Add(tokenLifetime).Unix(), Issued: now.Unix(), ID: rand.Text(),
		Access: []access{},
	}
	for _, scope := range scopes {
		if parts := strings.SplitN(scope, ":", 3); faults.tokenWithMore && user == Username && len(parts) == 3 {
			c.Access = append(c.Access, access{Type: parts[0], Name: parts[1], Actions: strings.Split(parts[2], ",")})
			continue
		}
		rest, ok := strings.CutPrefix(scope, "repository:"+Repository+":")
		if ok && user == Username && !faults.tokenWithoutRight && slices.Contains(strings.Split(rest, ","), "pull") {
			c.Access = append(c.Access, access{Type: "repository", Name: Repository, Actions: []string{"pull"}})
		}
	}
	payload, _ := json.Marshal(c)
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"HS256"}`)) +
		"." + base64.RawURLEncoding.EncodeToString(payload)
	return head + "." + w.tokenSignature(head)
}

// readToken checks signature, service and expiry.
func (w *World) readToken(token string) (claims, bool) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 || !hmac.Equal([]byte(token[i+1:]), []byte(w.tokenSignature(token[:i]))) {
		return claims{}, false
	}
	_, encoded, _ := strings.Cut(token[:i], ".")
	payload, err := base64.RawURLEncoding.DecodeString(encoded)
	var c claims
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return claims{}, false
	}
	return c, c.Audience == w.Registry.Name && w.now().Unix() < c.Expires
}

// tokenSignature begins with the mark that leak tests look for; all of its
// letters are legal base64url.
func (w *World) tokenSignature(head string) string {
	return TokenMark + base64.RawURLEncoding.EncodeToString(w.sign("token", head))
}

func (w *World) sign(purpose, text string) []byte {
	mac := hmac.New(sha256.New, w.key)
	mac.Write([]byte(purpose + "\x00" + text))
	return mac.Sum(nil)
}

func oauthError(rw http.ResponseWriter, status int, code string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_, _ = rw.Write([]byte(`{"error":"` + code + `"}`))
}
