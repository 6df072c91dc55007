package load_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// HTTP and FastCGI run over TCP, TLS and unix sockets, and over TLS on unix sockets.
func TestEveryTransportWorks(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.RequestURI()) })
	for _, scheme := range []string{"http", "https", "fcgi", "fcgis"} {
		for _, network := range []string{"tcp", "unix"} {
			address, url := "127.0.0.1:0", ""
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
				url = scheme + "+unix://" + address + ":/a?b"
			}
			l, err := net.Listen(network, address)
			testkit.Must(t, err)
			t.Cleanup(func() { l.Close() })
			if network == "tcp" {
				url = scheme + "://" + l.Addr().String() + "/a?b"
			}
			served := l
			if strings.HasSuffix(scheme, "s") {
				served = tls.NewListener(l, &tls.Config{Certificates: certified.TLS.Certificates})
			}
			if strings.HasPrefix(scheme, "fcgi") {
				go fcgi.Serve(served, handler)
			} else {
				go http.Serve(served, handler)
			}
			r := run(t, load.Plan{URL: url, TLS: &tls.Config{InsecureSkipVerify: true}, Connections: 3, Requests: 50})
			if r.Requests != 50 || r.Errors.Total() != 0 || r.BodyBytes != 50*uint64(len("/a?b")) ||
				(r.Handshake != nil) != strings.HasSuffix(scheme, "s") {
				t.Errorf("%s: %d requests, %d bytes of bodies, errors %+v", url, r.Requests, r.BodyBytes, r.Errors)
			}
		}
	}
}
