package registry

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/pullwalk/pullwalk/classify"
)

const bom = "\ufeff"

func TestFingerprint(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status   int
		header   string // "Name: value"
		body     string
		answerer string
		codes    []string
		message  string
	}{
		"distribution":             {404, "", `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown","detail":{"Tag":"1"}},{"code":"DENIED"}]}`, AnswererRegistry, []string{"MANIFEST_UNKNOWN", "DENIED"}, "manifest unknown"},
		"detail is a list":         {401, "", ` {"errors":[{"code":"UNAUTHORIZED","message":"authentication required","detail":[{"Type":"repository"}]}]}` + "\n", AnswererRegistry, []string{"UNAUTHORIZED"}, "authentication required"},
		"a token server's own way": {401, "", `{"details":"incorrect username or password"}`, AnswererRegistry, nil, "incorrect username or password"},
		"errors without codes":     {403, "", `{"errors":[{"status":403,"message":"Forbidden"}]}`, AnswererRegistry, nil, "Forbidden"},
		"JSON that says page":      {404, "Content-Type: text/html", `{"errors":[{"code":"NAME_UNKNOWN","message":"x"}]}`, AnswererRegistry, []string{"NAME_UNKNOWN"}, "x"},
		"JSON with a mark":         {404, "", bom + `{"errors":[{"code":"NAME_UNKNOWN","message":"x"}]}`, AnswererRegistry, []string{"NAME_UNKNOWN"}, "x"},
		"more codes than are kept": {400, "", `{"errors":[` + strings.Repeat(`{"code":"A"},`, 20) + `{"code":"B"}]}`, AnswererRegistry, []string{"A", "A", "A", "A", "A", "A", "A", "A"}, ""},
		"JSON of another kind":     {502, "", `{"message":"no upstream"}`, AnswererUnknown, nil, `{"message":"no upstream"}`},
		"empty errors":             {502, "", `{"errors":[]}`, AnswererUnknown, nil, `{"errors":[]}`},
		"numeric codes":            {403, "", `{"errors":[{"code":1003,"message":"x"}]}`, AnswererUnknown, nil, `{"errors":[{"code":1003,"message":"x"}]}`},
		"broken JSON":              {500, "", `{"errors":[{"code":"UNKNOWN"`, AnswererUnknown, nil, `{"errors":[{"code":"***"`},
		"version header":           {500, "Docker-Distribution-Api-Version: registry/2.0", "oh", AnswererRegistry, nil, "oh"},
		"S3":                       {403, "", `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match</Message><StringToSign>secret</StringToSign></Error>`, AnswererObjectStore, []string{"SignatureDoesNotMatch"}, "The request signature we calculated does not match"},
		"Azure":                    {403, "", bom + `<?xml version="1.0" encoding="utf-8"?><Error><Code>AuthenticationFailed</Code><Message>Server failed to authenticate the request.` + "\n" + `RequestId:1</Message><AuthenticationErrorDetail>x</AuthenticationErrorDetail></Error>`, AnswererObjectStore, []string{"AuthenticationFailed"}, "Server failed to authenticate the request. RequestId:1"},
		"Azure to a HEAD":          {404, "X-Ms-Error-Code: BlobNotFound", "", AnswererObjectStore, []string{"BlobNotFound"}, ""},
		"Google":                   {404, "", `<?xml version='1.0' encoding='UTF-8'?><Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>`, AnswererObjectStore, []string{"NoSuchKey"}, "The specified key does not exist."},
		"a store's namespace":      {404, "", `<Error xmlns="http://doc.s3.amazonaws.com/2006-03-01/"><Code>NoSuchBucket</Code></Error>`, AnswererObjectStore, []string{"NoSuchBucket"}, ""},
		"a store's header":         {503, "X-Amz-Request-Id: 1", "", AnswererObjectStore, nil, ""},
		"a store's broken XML":     {503, "X-Goog-Hash: x", "<Error><Code>Slow", AnswererObjectStore, nil, "<Error><Code>Slow"},
		"CloudFront is no store":   {503, "X-Amz-Cf-Id: 1", "", AnswererUnknown, nil, ""},
		"other XML":                {500, "", `<fault><Code>x</Code></fault>`, AnswererUnknown, nil, "<fault><Code>x</Code></fault>"},
		"a page by its type":       {200, "Content-Type: text/html; charset=utf-8", "please wait", AnswererHTML, nil, ""},
		"a page by a broken type":  {200, "Content-Type: text/html; charset", "please wait", AnswererHTML, nil, ""},
		"a page by its content":    {403, "Content-Type: text/plain", "\n <!DOCTYPE HTML><HTML><head><TITLE lang=\"en\">\n Access &amp; block </TITLE></head>", AnswererHTML, nil, "Access & block"},
		"a page with a mark":       {403, "", bom + "<html><title>Blocked</title>", AnswererHTML, nil, "Blocked"},
		"a page of an old kind":    {502, "", "<head><title>502 Bad Gateway</title></head>", AnswererHTML, nil, "502 Bad Gateway"},
		"a title without end":      {403, "", "<html><title>Blocked", AnswererHTML, nil, "Blocked"},
		"no text in bytes":         {403, "Content-Type: text/html", strings.Repeat("\xff", 50) + "<title>x</title>", AnswererHTML, nil, "x"},
		"letters that change size": {403, "Content-Type: text/html", strings.Repeat("İ", 50) + "<title>x</title>", AnswererHTML, nil, "x"},
		"a proxy's page":           {407, "Content-Type: text/html", "<html>log in", AnswererProxy, nil, "<html>log in"},
		"empty":                    {500, "", "", AnswererUnknown, nil, ""},
		"not UTF-8":                {500, "", "a\xffb\x00c", AnswererUnknown, nil, "a\ufffdb c"},
		"a secret in the words":    {400, "", `{"errors":[{"code":"X","message":"bad https://a.corp.test/b?sig=s3cret and Bearer abc123DEF456"}]}`, AnswererRegistry, []string{"X"}, "bad https://a.corp.test/b and Bearer ***"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			if k, v, ok := strings.Cut(tt.header, ": "); ok {
				h.Set(k, v)
			}
			answerer, codes, message := fingerprint(tt.status, h, []byte(tt.body))
			assert.Equal(t, tt.answerer, answerer)
			assert.Equal(t, tt.codes, codes)
			assert.Equal(t, tt.message, message)
		})
	}
}

func TestReadAnswer(t *testing.T) {
	t.Parallel()
	req := &http.Request{Method: http.MethodGet, URL: mustURL(t, "https://joe:hunter2@registry.corp.test/v2/a?ns=x"), Header: http.Header{"Authorization": {"Bearer s3cret"}}}
	body := &counted{r: strings.NewReader(strings.Repeat("word ", MaxErrorBody))}
	a := ReadAnswer(&http.Response{StatusCode: 500, Body: body, Request: req}, classify.OperationFetchBlob)
	assert.LessOrEqual(t, body.n, MaxErrorBody)
	assert.True(t, body.closed)
	assert.LessOrEqual(t, len(a.Message), maxMessage)
	assert.True(t, utf8.ValidString(a.Message))
	a.Message = ""
	assert.Equal(t, &classify.HTTPAnswer{
		Operation: classify.OperationFetchBlob, Host: "registry.corp.test", URL: "https://registry.corp.test/v2/a",
		Method: http.MethodGet, Status: 500, Answerer: AnswererUnknown, Credentialed: true,
	}, a)

	a = ReadAnswer(&http.Response{StatusCode: 404, Body: io.NopCloser(iotestErr{})}, "")
	assert.Equal(t, AnswererUnknown, a.Answerer, "a response of nobody, and a body that breaks")
}

type counted struct {
	r      io.Reader
	n      int
	closed bool
}

func (c *counted) Read(p []byte) (int, error) { n, err := c.r.Read(p); c.n += n; return n, err }
func (c *counted) Close() error               { c.closed = true; return nil }

func TestCorrelationID(t *testing.T) {
	t.Parallel()
	assert.Empty(t, correlationID(nil))
	assert.Equal(t, "az", correlationID(http.Header{"X-Request-Id": {"other"}, "X-Ms-Correlation-Request-Id": {"az"}}))
	assert.LessOrEqual(t, len(correlationID(http.Header{"X-Request-Id": {strings.Repeat("a", 500)}})), 80)
}
