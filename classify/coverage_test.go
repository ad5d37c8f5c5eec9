package classify_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// Every code is produced by a text of testdata/texts.jsonl, by a live error here,
// or stands in a test of the package whose probe finds it: a code that no test
// asks for is only a promise.
func TestEveryCauseIsProduced(t *testing.T) {
	t.Parallel()
	produced := map[classify.Cause]bool{}
	for _, l := range labelledTexts(t) {
		for _, f := range classify.Event(l.Reason, l.Text).Attempts {
			produced[f.Cause] = true
		}
	}
	stage := func(s classify.Stage, err error) error {
		return &classify.StageError{Stage: s, Endpoint: "registry.corp.test:443", Err: err}
	}
	for _, err := range []error{
		stage(classify.StageConnect, context.DeadlineExceeded),
		stage(classify.StageHandshake, tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake", RecordHeader: [5]byte{'2', '2', '0', ' ', 'm'}}),
		stage(classify.StageHandshake, tls.AlertError(116)),
		stage(classify.StageBody, io.ErrUnexpectedEOF),
		&net.DNSError{Err: "no such host", IsNotFound: true},
		x509.UnknownAuthorityError{Cert: selfSigned(t, "registry.corp.test").Leaf},
		&classify.HTTPAnswer{Status: 405},
		errors.New("something that nobody has seen before"),
	} {
		produced[classify.Error(err).Cause] = true
	}
	elsewhere := testsElsewhere(t)
	var missing []string
	for name, code := range declared(t) {
		if !produced[code] && !strings.Contains(elsewhere, "classify."+name) && !strings.Contains(elsewhere, string(code)) {
			missing = append(missing, string(code))
		}
	}
	slices.Sort(missing)
	assert.Empty(t, missing, "no text, no error and no probe's test produces these")
}

// testsElsewhere returns the tests of the other packages of this module.
func testsElsewhere(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "classify"):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	})
	require.NoError(t, err)
	return all.String()
}
