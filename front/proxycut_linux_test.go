package front_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// proxyVariants are the ways in which a response is forwarded: buffered or not, stored or not.
func proxyVariants(to string, protocol string) map[string]conf.Config {
	variants := make(map[string]conf.Config)
	for _, stream := range []bool{false, true} {
		plain := proxyTo(conf.Proxy{To: conf.Text(to), Protocol: protocol, Stream: stream})
		variants[fmt.Sprintf("stream %v", stream)] = plain
		stored := cached(to, conf.ProxyCache{Key: "$uri"}, conf.Cache{Name: "one"})
		stored.Hosts[0].Locations[0].Proxy.Stream, stored.Hosts[0].Locations[0].Proxy.Protocol = stream, protocol
		variants[fmt.Sprintf("stored, stream %v", stream)] = stored
	}
	return variants
}

// If an upstream cuts its response short, the client receives what has arrived, and can tell that
// it is incomplete, as in nginx.
func TestIncompleteResponseIsNoticed(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
	for name, text := range map[string]string{
		"length": head + "Content-Length: 10\r\n\r\n0123", "length, nothing": head + "Content-Length: 10\r\n\r\n",
		"chunks": head + "Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n", "chunks, nothing": head +
			"Transfer-Encoding: chunked\r\n\r\n",
		"in a chunk":      head + "Transfer-Encoding: chunked\r\n\r\na\r\n0123",
		"until it closes": head + "\r\n0123", "HTTP/1.0": "HTTP/1.0 200 OK\r\n\r\n0123",
	} {
		to := testkit.ServeTCP(t, func(nc net.Conn) {
			if readHead(nc) == nil {
				_, _ = io.WriteString(nc, text)
			}
		})
		theirs, _ := serveNginx(t, "", fmt.Sprintf("location / { proxy_pass http://%s; proxy_http_version 1.1; }", to))
		want, wantErr := theirs.attempt("GET", "/x", nil)
		if want.status != 200 {
			t.Fatalf("%s: nginx %v, %v", name, want, wantErr)
		}
		for variant, c := range proxyVariants(to, "") {
			us := serveHandler(t, newFront(t, c))
			for range 2 {
				got, err := us.attempt("GET", "/x", nil)
				if got.status != 200 || got.body != want.body ||
					errors.Is(err, io.ErrUnexpectedEOF) != errors.Is(wantErr, io.ErrUnexpectedEOF) {
					t.Errorf("%s, %s: %v %v, nginx %v %v", name, variant, got, err, want, wantErr)
				}
			}
		}
	}
}

// The same over FastCGI. Without FCGI_END_REQUEST a response is incomplete. nginx takes the closed
// connection for its end if there is no length.
func TestIncompleteFastCGIResponseIsNoticed(t *testing.T) {
	for name, text := range map[string]string{
		"length": "Content-Length: 10\n\n0123", "length, nothing": "Content-Length: 10\n\n",
		"no length": "Cache-Control: max-age=60\n\n0123",
	} {
		to := testkit.ServeTCP(t, func(nc net.Conn) {
			if _, _, _, err := readApplication(nc); err == nil {
				_, _ = nc.Write(wire.AppendStream(nil, wire.Stdout, 1, []byte(text)))
			}
		})
		want := map[bool]string{true: "", false: "0123"}[name == "length, nothing"]
		for variant, c := range proxyVariants(to, "fastcgi") {
			us := serveHandler(t, newFront(t, c))
			if got, err := us.attempt("GET", "/x", nil); got.status != 200 || got.body != want ||
				!errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %s: %v %v, want %q that is cut short", name, variant, got, err, want)
			}
		}
	}
}
