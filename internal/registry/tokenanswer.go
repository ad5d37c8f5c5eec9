package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// TokenAttempt is one request to the token server.
type TokenAttempt struct {
	Method       string `json:"method"`
	URL          string `json:"url"`              // without query
	Status       int    `json:"status,omitempty"` // 0 = no answer
	Credentialed bool   `json:"credentialed"`
	ElapsedMS    int64  `json:"elapsedMs"`
}

// TokenResult is what the token server gave.
type TokenResult struct {
	Attempts  []TokenAttempt
	Token     Token
	HasToken  bool
	ExpiresIn time.Duration // 0 = not said, or no sensible time
	IssuedAt  time.Time     // by the server's clock; zero = not said
	// Granted are the actions on the repository that the token claims, nil if it cannot be
	// read. The claim is not verified: only the registry can do that.
	Granted  []string
	Readable bool
	ForUser  bool   // the token names the user of the request as its subject; a claim as well
	Dropped  string // the host of a redirect to which a runtime does not send the credential; "" = none
	// Err is a *classify.HTTPAnswer, *classify.StageError, *BadRealmError,
	// *MalformedTokenError, *WithheldError, a [classify.Finding] about a redirect, or what
	// TokenRequest.Next returned; nil if a token came.
	Err error
}

// MalformedTokenError says that the token server answered 200 without a token.
type MalformedTokenError struct {
	Host, Reason string
	Answerer     string
}

func (e *MalformedTokenError) Error() string {
	return fmt.Sprintf("the answer of %s holds no token: %s", e.Host, e.Reason)
}

// answered reads the answer that ends an exchange.
func (r *TokenResult) answered(method string, req *http.Request, resp *http.Response, repository string) error {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		answer := ReadAnswer(resp, classify.OperationFetchToken)
		answer.Credentialed = credentialed(req)
		return answer
	}
	start := time.Now()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, MaxToken+1))
	_ = resp.Body.Close()
	r.Attempts[len(r.Attempts)-1].ElapsedMS += time.Since(start).Milliseconds()
	if err != nil {
		return ofToken(err)
	}
	return r.read(method, req.URL.Host, resp.Header, raw, repository)
}

// read parses a token answer as the runtimes do: whatever its media type, the first JSON
// value counts. The distribution token specification allows "token" and "access_token" in
// the answer to a GET; after a POST, which is OAuth 2, the runtimes look for "access_token"
// alone.
func (r *TokenResult) read(method, host string, h http.Header, raw []byte, repository string) error {
	bad := func(answerer, reason string) error {
		return &MalformedTokenError{Host: host, Answerer: answerer, Reason: reason}
	}
	if len(raw) > MaxToken {
		return bad(AnswererUnknown, fmt.Sprintf("more than %d bytes", MaxToken))
	}
	var doc struct {
		Token       string          `json:"token"`
		AccessToken string          `json:"access_token"`
		ExpiresIn   int64           `json:"expires_in"`
		IssuedAt    json.RawMessage `json:"issued_at"`
	}
	err := json.NewDecoder(bytes.NewReader(raw)).Decode(&doc)
	switch {
	case err != nil && isHTML(h, trim(raw)):
		return bad(AnswererHTML, "an HTML page")
	case err != nil && len(bytes.TrimSpace(raw)) == 0:
		return bad(AnswererUnknown, "the body is empty")
	case err != nil:
		return bad(AnswererUnknown, "not the JSON that is expected")
	}
	value := doc.AccessToken
	if value == "" && method == http.MethodGet {
		value = doc.Token
	}
	issued := time.Time{}
	switch {
	case len(doc.IssuedAt) > 0 && json.Unmarshal(doc.IssuedAt, &issued) != nil:
		return bad(AnswererRegistry, "issued_at is no time in the form of RFC 3339")
	case value == "" && doc.Token != "":
		return bad(AnswererRegistry, "token without access_token, which the answer to a POST must have")
	case value == "":
		return bad(AnswererRegistry, "neither token nor access_token")
	case strings.ContainsFunc(value, isControl):
		return bad(AnswererRegistry, "characters that no header may carry")
	}
	r.Token, r.HasToken, r.IssuedAt = Token{value}, true, issued
	if doc.ExpiresIn > 0 && doc.ExpiresIn < 10*365*24*3600 {
		r.ExpiresIn = time.Duration(doc.ExpiresIn) * time.Second
	}
	r.Granted, r.Readable = r.Token.granted(repository)
	return nil
}

func credentialed(req *http.Request) bool {
	return req.Header.Get("Authorization") != "" || req.Method == http.MethodPost
}

// ofToken says of an error that a token was fetched.
func ofToken(err error) error {
	var stage *classify.StageError
	if errors.As(err, &stage) && stage.Operation == "" {
		stage.Operation = classify.OperationFetchToken
	}
	return err
}
