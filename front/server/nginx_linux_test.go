package server_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// preamble is the beginning of a configuration that real nginx accepts, too. DIR is a directory.
const preamble = `daemon off; master_process off; pid DIR/pid; error_log DIR/error.log;
events {}
http {
	access_log off; client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f;
	uwsgi_temp_path DIR/u; scgi_temp_path DIR/c;
`

// serveHTTP2 serves a configuration by real nginx, or by a Server, and returns the socket.
func serveHTTP2(t *testing.T, byNginx bool, directives string) (socket string) {
	dir := testkit.ShortDir(t)
	name, socket := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "s")
	content := strings.ReplaceAll(preamble+directives+" server { listen unix:DIR/s http2; return 204; } }", "DIR", dir)
	testkit.Must(t, os.WriteFile(name, []byte(content), 0o600))
	if byNginx {
		tool := programs.Nginx(t)
		programs.Start(t, "unix", socket, tool.Env, tool.Bin, "-p", dir, "-c", name,
			"-e", filepath.Join(dir, "error.log"))
		return socket
	}
	run(t, name, server.Options{})
	return socket
}

// sendHead sends a head, and the end of its block. It returns the server's settings, and the status of
// the response, or 0 if the server resets the stream or ends the connection.
func sendHead(t *testing.T, socket string, fields []string, raw string) (all map[http2.SettingID]uint32, status int) {
	t.Helper()
	c := dial(t, "unix", socket, http2.ClientPreface)
	defer c.Close()
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
	}
	block.WriteString(raw)
	part := block.Next(16 << 10) // the largest frame
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: block.Len() == 0,
		BlockFragment: part})
	for err == nil && block.Len() > 0 { // otherwise the server has ended the connection
		part = block.Next(16 << 10)
		err = f.WriteContinuation(1, block.Len() == 0, part)
	}
	all = make(map[http2.SettingID]uint32)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return all, 0
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			_ = frame.ForeachSetting(func(s http2.Setting) error {
				all[s.ID] = s.Val
				return nil
			})
		case *http2.MetaHeadersFrame:
			status, _ = strconv.Atoi(frame.PseudoValue("status"))
			return all, status
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return all, 0
		}
	}
}

// Clients receive the settings that nginx sends, and their heads have the same limits. For a head
// over its limit nginx ends the connection. A window that is not configured is larger than nginx's.
func TestHTTP2DirectivesAreNginxs(t *testing.T) {
	for _, directives := range []string{
		"",
		"http2_max_concurrent_streams 7; http2_body_preread_size 128k;",
		"http2_max_concurrent_streams 1000; large_client_header_buffers 2 2k;",
		"large_client_header_buffers 4 512;",
		"http2_max_field_size 100; http2_max_header_size 100; http2_idle_timeout 1s; http2_recv_timeout 1s;",
	} {
		nginx, tare := serveHTTP2(t, true, directives), serveHTTP2(t, false, directives)
		get := []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"}
		want, _ := sendHead(t, nginx, get, "")
		got, _ := sendHead(t, tare, get, "")
		compared := []http2.SettingID{http2.SettingMaxConcurrentStreams}
		if strings.Contains(directives, "preread") {
			compared = append(compared, http2.SettingInitialWindowSize)
		}
		for _, id := range compared {
			testkit.Equal(t, got[id], want[id], directives, id)
		}
		heads := [][]int{
			{500}, {512}, {513}, {500, 500, 500}, {1000}, {1500, 1500}, {2048}, {2049}, {1500, 1500, 1500, 1500},
			{7000, 7000}, {8192}, {8193},
		}
		if directives == "" {
			heads = append(heads, make([]int, 600))
		}
		for _, sizes := range heads {
			for _, c := range []string{"~", "1"} { // in Huffman's code a digit has five bits
				fields := slices.Clone(get)
				for i, n := range sizes {
					fields = append(fields, "x-"+strconv.Itoa(i), strings.Repeat(c, n))
				}
				_, want := sendHead(t, nginx, fields, "")
				_, got := sendHead(t, tare, fields, "")
				if (got == 204) != (want == 204) || got != 204 && got != 431 {
					t.Errorf("%q: the status for %v times %s is %d, and nginx's %d", directives, sizes, c, got, want)
				}
			}
		}
	}
}

// The lines of a head of HTTP/1 have nginx's limit, too.
func TestLinesOfHeadsAreLimitedAsByNginx(t *testing.T) {
	for _, buffers := range []string{"", "large_client_header_buffers 4 2k;", "large_client_header_buffers 4 512;"} {
		directives := buffers + "server { listen unix:DIR/one; return 204; }"
		nginx, tare := serveHTTP2(t, true, directives), serveHTTP2(t, false, directives)
		for _, size := range []int{500, 2000, 2100, 8100, 8300} {
			long := strings.Repeat("x", size)
			for _, request := range []string{
				"GET /" + long + " HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: " + long + "\r\n\r\n",
			} {
				want, got := statusOf(t, nginx, request), statusOf(t, tare, request)
				if want == "400" {
					want = "431"
				}
				testkit.Equal(t, got, want, buffers, request[:10], "with", size, "bytes")
			}
		}
	}
}

// statusOf sends a request of HTTP/1 to the socket "one" beside another, and returns the status.
func statusOf(t *testing.T, socket, request string) string {
	c := dial(t, "unix", filepath.Join(filepath.Dir(socket), "one"), request)
	defer c.Close()
	line := make([]byte, len("HTTP/1.1 204"))
	testkit.Value(io.ReadFull(c, line))(t)
	return string(line[len("HTTP/1.1 "):])
}

// Every request that a client has sent is in the access log, as in nginx, also if it was rejected
// before a handler has seen it. nginx logs the status 000 if it resets the stream or ends the
// connection; tare logs why it does.
func TestRejectedHTTP2RequestsAreLoggedAsByNginx(t *testing.T) {
	const get, same = ":method GET :scheme http :authority localhost :path ", "=" // as nginx
	heads := []struct {
		fields     string // names and values, between spaces
		raw        string // the end of the block
		nginx, own string // lines in the log
	}{
		{get + "/good user-agent ua", "", "204 GET /good ua", same},
		{get + "/upper user-agent ua X-Upper x", "", "000 GET /upper ua", "400 GET /upper ua"},
		{get + "/value x a\nb", "", "000 GET /value -", "400 GET /value -"},
		{get + "/length content-length 1x", "", "400 GET /length -", same},
		{get + "/short content-length 5", "", "400 GET /short -", same},
		{get + "/hosts host other", "", "400 GET /hosts -", same},
		{get + "/new :foo x", "", "400 GET /new -", same},
		{get + "/status :status 200", "", "400 GET /status -", same},
		{":method GET :scheme http :authority localhost", "", "400 GET - -", "400 GET  -"},
		{":scheme http :authority localhost :path /nomethod", "", "400 - /nomethod -", same},
		{":method GET :authority localhost :path /noscheme", "", "400 GET /noscheme -", same},
		{":method GET :scheme http :path /host :authority a/b", "", "400 GET /host -", same},
		{":method G/T :scheme http :authority localhost :path /method", "", "400 G/T - -", "400 G/T /method -"},
		{":method CONNECT :authority localhost:1", "", "400 CONNECT - -", ""}, // tare responds by a handler
		{get + "/upgrade upgrade h2c", "", "204 GET /upgrade -", "400 GET /upgrade -"},
		{get + "/te te gzip", "", "204 GET /te -", "400 GET /te -"},
		{get + "/index", "\xff\x7f", "000 GET /index -", "400 GET /index -"},
		{get + "/cut", "\x00\x05ab", "000 GET /cut -", "400 GET /cut -"},
		{get + "/large x " + strings.Repeat("~", 60_000), "", "000 GET /large -", "431 GET /large -"},
	}
	const logged = `log_format t '$status $request_method $uri $http_user_agent';
		server { listen unix:DIR/log http2; access_log DIR/access.log t; return 204; }`
	for _, byNginx := range []bool{true, false} {
		dir := filepath.Dir(serveHTTP2(t, byNginx, logged))
		var want []string
		for _, h := range heads {
			line := h.nginx
			if !byNginx && h.own != same {
				line = h.own
			}
			if line != "" {
				sendHead(t, filepath.Join(dir, "log"), strings.Split(h.fields, " "), h.raw)
				want = append(want, line)
			}
		}
		var got []string
		testkit.WaitFor(t, "the lines", func() bool {
			b, _ := os.ReadFile(filepath.Join(dir, "access.log"))
			got = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
			return len(got) >= len(want)
		})
		slices.Sort(got)
		slices.Sort(want)
		testkit.Equal(t, got, want, "by nginx", byNginx)
	}
}

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
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost"}})
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
	return dial(s, "tcp", net.JoinHostPort(host, port), before)
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
	var stopped atomic.Bool
	var clients sync.WaitGroup
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		clients.Go(func() {
			for !stopped.Load() {
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
	stopped.Store(true)
	clients.Wait()
}
