package tlstest

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// ClientHello returns a client's first TLS message.
func ClientHello(t testing.TB) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).Handshake()
		client.Close()
	}()
	b := make([]byte, 16<<10)
	n, err := io.ReadAtLeast(server, b, 5)
	testkit.Must(t, err)
	return b[:n]
}
