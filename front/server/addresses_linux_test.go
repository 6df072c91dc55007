package server_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// addressed is a running server, or nginx, of one configuration.
type addressed struct {
	*testing.T
	dir, port, port6 string
	server           *server.Server
}

// newAddressed prepares a folder and free ports.
func newAddressed(t *testing.T) *addressed {
	free := programs.FreeAddresses(t, 2)
	s := &addressed{T: t, dir: t.TempDir(), port: free[0][len("127.0.0.1:"):], port6: "0"}
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		l.Close()
		s.port6 = free[1][len("127.0.0.1:"):]
	}
	cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost"}})
	testkit.Must(t, os.WriteFile(filepath.Join(s.dir, "pem"), append(cert, key...), 0o600))
	return s
}

// configure writes a configuration, in which PORT and PORT6 are ports, and SSL is TLS.
func (s *addressed) configure(servers string) string {
	s.Helper()
	const certificate = "default_type text/plain; ssl_certificate DIR/pem; ssl_certificate_key DIR/pem;\n"
	name := filepath.Join(s.dir, "nginx.conf")
	text := strings.NewReplacer("DIR", s.dir, "PORT6", s.port6, "PORT", s.port).Replace(
		preamble + certificate + servers + "\n}\n")
	testkit.Must(s, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// serve serves the configuration by tare.
func (s *addressed) serve(servers string) {
	s.Helper()
	s.server, _ = run(s, s.configure(servers), server.Options{})
}

// dial connects to an address, and sends before.
func (s *addressed) dial(host, before string) net.Conn {
	s.Helper()
	port := s.port
	if strings.Contains(host, ":") {
		port = s.port6
	}
	c := testkit.Value(net.Dial("tcp", net.JoinHostPort(host, port)))(s)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, before)
	return c
}

// secured starts TLS on a connection, as a client of both versions of HTTP.
func secured(c net.Conn) *tls.Conn {
	return tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
}

const proxyHeader = "PROXY TCP4 192.0.2.7 192.0.2.8 1000 2000\r\n"

// outcomes returns what a client of an address receives in each of several ways of using it: the
// body of a response of the address's server, or "-".
func (s *addressed) outcomes(host string) (all []string) {
	s.Helper()
	for _, before := range []string{"", proxyHeader} {
		all = append(all, body(s.dial(host, before)))
		c := secured(s.dial(host, before))
		defer c.Close()
		if err := c.Handshake(); err != nil {
			all = append(all, "-")
			continue
		}
		protocol := c.ConnectionState().NegotiatedProtocol
		if protocol == "h2" {
			all = append(all, protocol)
		} else {
			all = append(all, protocol+" "+body(c))
		}
	}
	c := s.dial(host, http2.ClientPreface)
	defer c.Close()
	f := http2.NewFramer(c, c)
	_ = f.WriteSettings()
	if frame, err := f.ReadFrame(); err == nil && frame.Header().Type == http2.FrameSettings {
		return append(all, "h2c")
	}
	return append(all, "-")
}

// body returns the body of a response with status 200, or "-".
func body(c net.Conn) string {
	_, _ = io.WriteString(c, "GET / HTTP/1.0\r\nX: "+strings.Repeat("x", 7000)+"\r\n\r\n")
	b, _ := io.ReadAll(c)
	c.Close()
	head, text, _ := strings.Cut(string(b), "\r\n\r\n")
	if _, status, _ := strings.Cut(head, " "); !strings.HasPrefix(status, "200 ") {
		return "-"
	}
	return text
}

// The properties of listen, and the settings of connections, are those of the address that a client
// connects to, although all addresses of a port share a socket.
func TestAddressesHaveTheirOwnProperties(t *testing.T) {
	const text = ` return 200 "$server_name $server_addr:$server_port $scheme $proxy_protocol_addr $ssl_client_verify"; }
`
	for _, servers := range []string{
		"server { listen PORT; server_name any;" + text +
			"server { listen 127.0.0.2:PORT ssl; server_name secure;" + text +
			"server { listen 127.0.0.3:PORT proxy_protocol; server_name proxied;" + text +
			"server { listen 127.0.0.4:PORT ssl http2 proxy_protocol; server_name all;" + text +
			"server { listen 127.0.0.5:PORT http2; server_name h2c;" + text +
			"server { listen 127.0.0.6:PORT; server_name short; large_client_header_buffers 1 2k;" + text +
			"server { listen [::]:PORT6 ssl proxy_protocol; server_name any6;" + text +
			"server { listen [::1]:PORT6; server_name one;" + text,
		"server { listen PORT ssl http2 proxy_protocol; server_name any;" + text +
			"server { listen 127.0.0.2:PORT; server_name plain;" + text +
			"server { listen 127.0.0.3:PORT ssl; server_name secure; ssl_verify_client on;" +
			"ssl_client_certificate DIR/pem;" + text +
			"server { listen 127.0.0.4:PORT; listen PORT; listen 127.0.0.5:PORT proxy_protocol; server_name two;" + text +
			"server { listen 127.0.0.6:PORT; listen 127.0.0.5:PORT; server_name three;" + text +
			"server { listen [::]:PORT6; server_name any6;" + text +
			"server { listen [::1]:PORT6 ssl; server_name one;" + text,
	} {
		s := newAddressed(t)
		hosts := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "::1"}
		if s.port6 == "0" {
			servers, hosts = servers[:strings.Index(servers, "server { listen [::]")], hosts[:6]
		}
		tool, want := programs.Nginx(t), make(map[string][]string)
		t.Run("nginx", func(t *testing.T) {
			s.T = t
			programs.Start(t, "tcp", "127.0.0.1:"+s.port, tool.Env, tool.Bin, "-p", s.dir, "-c", s.configure(servers),
				"-e", filepath.Join(s.dir, "error.log"))
			for _, host := range hosts {
				want[host] = s.outcomes(host)
			}
		})
		t.Run("tare", func(t *testing.T) {
			s.T = t
			s.serve(servers)
			for _, host := range hosts {
				got := s.outcomes(host)
				if last := len(got) - 1; got[last] == "h2c" { // nginx 1.22 then speaks no other version
					got, want[host] = got[last:], want[host][last:]
				}
				testkit.Equal(t, got, want[host], host)
			}
		})
	}
}

// reload serves other servers.
func (s *addressed) reload(servers string) {
	s.Helper()
	s.configure(servers)
	testkit.Must(s, s.server.Reload())
}

// A connection that is older than a reload has not the properties that its address has now. Its
// next request receives an error, and nothing of what they protect.
func TestOlderConnectionsLackTheAddressesNewProperties(t *testing.T) {
	const any, secret = `server { listen PORT; return 200 any; }`, `return 200 "secret $proxy_protocol_addr"; }`
	for _, c := range []struct{ before, sent, after, want string }{
		{any, "", any + ` server { listen 127.0.0.2:PORT ssl; ssl_verify_client on; ssl_client_certificate DIR/pem; ` +
			secret, "400"},
		{`server { listen 127.0.0.2:PORT; return 200 any; }`, "",
			`server { listen 127.0.0.2:PORT ssl; ` + secret, "400"},
		{any, "", any + ` server { listen 127.0.0.2:PORT proxy_protocol; ` + secret, "400"},
		{`server { listen PORT proxy_protocol; return 200 any; }`, proxyHeader,
			any + ` server { listen 127.0.0.2:PORT; ` + secret, "200 secret "},
	} {
		s := newAddressed(t)
		s.serve(c.before)
		older := s.dial("127.0.0.2", c.sent)
		t.Cleanup(func() { older.Close() })
		r := bufio.NewReader(older)
		testkit.Equal(t, request(older, r), "200 any", c.before)
		s.reload(c.after)
		if got := request(older, r); got != c.want && (c.want != "400" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: after the reload %q, want %q", c.after, got, c.want)
		}
	}
}

// request sends a request and returns the status and the body of the response.
func request(c net.Conn, r *bufio.Reader) string {
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, b)
}

// While reloads add and remove an address, no client is served by its weaker predecessor, and no
// connection is lost.
func TestReloadsNeverWeakenAnAddress(t *testing.T) {
	testkit.Long(t, "it reloads for a second")
	const any = `server { listen PORT; return 200 any; }`
	const both = any + `server { listen 127.0.0.2:PORT ssl; return 200 secret; }`
	s := newAddressed(t)
	s.serve(any)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := body(s.dial(host, "")); got != "any" && (host == "127.0.0.1" || got != "-") {
					t.Errorf("%s: %q", host, got)
				}
			}
		})
	}
	for range 20 {
		s.reload(both)
		testkit.Equal(t, body(s.dial("127.0.0.2", "")), "-", "plain HTTP after the reload")
		if got := body(secured(s.dial("127.0.0.2", ""))); got != "secret" && got != "-" {
			t.Errorf("TLS after the reload: %q", got)
		}
		s.reload(any)
	}
	close(stop)
	clients.Wait()
}
