package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// encode writes a pair as the files that -tls-cert and -tls-key name.
func encode(t *testing.T, pair tls.Certificate) (cert, key string) {
	t.Helper()
	for _, der := range pair.Certificate {
		cert += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	return cert, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func trusting(w *lab.World) *tls.Config {
	return &tls.Config{RootCAs: w.TrustedPool(), ServerName: agentclient.ServerName}
}

func encodeCertificate(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func tokenIs(token string) func(context.Context, string) ([]byte, error) {
	return func(context.Context, string) ([]byte, error) { return []byte(token), nil }
}
