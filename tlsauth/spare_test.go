package tlsauth

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every connection that is handed on was verified: a server that shows another
// certificate to the second hello, or wants one of the client's, gets no spare.
func TestOnSpare(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	one, other := present(issue(t, root, registryHost, server(nil, registryHost))), present(issue(t, root, registryHost, server(nil, registryHost)))
	strange := present(issue(t, nil, registryHost, server(nil, registryHost)))
	for name, tt := range map[string]struct {
		first, second tls.Certificate
		demand        tls.ClientAuthType
		conn, spare   bool
	}{
		"the same":           {one, one, tls.NoClientCert, true, true},
		"another":            {one, other, tls.NoClientCert, true, false},
		"one nobody trusts":  {one, strange, tls.NoClientCert, true, false},
		"both nobody trusts": {strange, strange, tls.NoClientCert, false, false},
		"a client's wanted":  {one, one, tls.RequestClientCert, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var shown atomic.Int32
			ap := serveTLS(t, &tls.Config{ClientAuth: tt.demand, GetCertificate: func(info *tls.ClientHelloInfo) (*tls.Certificate, error) {
				if len(info.SupportedCurves) > 0 && info.SupportedCurves[0] == tls.X25519MLKEM768 { // the large hello
					return &tt.first, nil
				}
				shown.Add(1)
				return &tt.second, nil
			}})
			var spare []net.Conn
			c := &Checker{Roots: pool(root), Hellos: []Hello{HelloLarge, HelloClassical}, Now: func() time.Time { return noon }, OnSpare: func(c net.Conn) { spare = append(spare, c) }}
			rep, conn, err := c.Dial(t.Context(), ap, registryHost)
			require.NoError(t, err)
			assert.EqualValues(t, 1, shown.Load())
			assert.Equal(t, tt.conn, conn != nil, "%+v", rep)
			assert.Equal(t, tt.spare, len(spare) == 1)
			for _, c := range spare {
				assert.Equal(t, leafOf(conn), leafOf(c))
				require.NoError(t, c.Close())
			}
			if conn != nil {
				require.NoError(t, conn.Close())
			}
		})
	}
}

func leafOf(c net.Conn) *x509.Certificate { return c.(*tls.Conn).ConnectionState().PeerCertificates[0] }
