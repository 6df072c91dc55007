package engine_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
)

// A connection whose cipher suite RFC 9113 prohibits for HTTP/2 is rejected, unless the settings
// permit it, on the goroutine path and on shards.
func TestHTTP2IsRejectedOverProhibitedCiphers(t *testing.T) {
	for _, mode := range []string{"h2-tls-goroutine", "h2-tls-shard"} {
		for _, permits := range []bool{false, true} {
			set := &http.Server{HTTP2: &http.HTTP2Config{PermitProhibitedCipherSuites: permits}}
			s := newHTTP2Site(t, "tare", mode, set)
			transport := s.client.Transport.(*http.Transport)
			plain, err := transport.DialContext(t.Context(), "tcp", "")
			testkit.Must(t, err)
			tc := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
				NextProtos: []string{"h2"}, CipherSuites: prohibitedCiphers()})
			defer tc.Close()
			if got := firstError(t, tc); (got == http2.ErrCodeInadequateSecurity) == permits {
				t.Errorf("%s, permits %v: %v", mode, permits, got)
			}
		}
	}
}

func prohibitedCiphers() []uint16 {
	return []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
}

// firstError returns the code of the GOAWAY frame among the first two frames that the server sends,
// or NO_ERROR if there is none. A server that accepts the connection sends WINDOW_UPDATE second.
func firstError(t *testing.T, c net.Conn) http2.ErrCode {
	framer := http2.NewFramer(io.Discard, c)
	for range 2 {
		f, err := framer.ReadFrame()
		testkit.Must(t, err)
		if f, ok := f.(*http2.GoAwayFrame); ok {
			return f.ErrCode
		}
	}
	return http2.ErrCodeNo
}
