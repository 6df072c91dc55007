package cli_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// frontSite is a folder with an nginx.conf, and the server that runs it.
type frontSite struct {
	t   *testing.T
	dir string
	*served
}

// newFrontSite creates a folder that all users can access.
func newFrontSite(t *testing.T) *frontSite { return &frontSite{t: t, dir: openDir(t)} }

func (f *frontSite) path(name string) string { return filepath.Join(f.dir, name) }

// configure writes the configuration; DIR stands for the folder.
func (f *frontSite) configure(text string) {
	f.t.Helper()
	write(f.t, f.path("nginx.conf"), strings.ReplaceAll(text, "DIR", f.dir))
}

func (f *frontSite) start() {
	f.t.Helper()
	f.served = serveFiles(f.t, "-c", f.path("nginx.conf"))
	f.await(`tare: running as `)
}

// over returns a client that connects to a unix socket in the folder.
func (f *frontSite) over(socket string) *http.Client {
	return client(f.t, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", f.path(socket))
	})
}

// reload reloads the configuration and waits for the outcome.
func (f *frontSite) reload() {
	f.t.Helper()
	before := strings.Count(f.stderr(), "reload: ")
	f.signal(syscall.SIGHUP)
	awaitRepeated(f.t, f.served, "reload: ", before+1)
}

const twoSockets = `pid DIR/run/pid;
error_log DIR/error.log info;
events { worker_connections 512; }
http {
	server { listen unix:DIR/first; location / { return 200 "one"; } }
	server { listen unix:DIR/second; location / { return 200 "two"; } }
}
`

// A reload opens and closes sockets; an invalid configuration changes nothing.
func TestReloadChangesSocketsOrNothing(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	testkit.Must(t, os.Mkdir(f.path("run"), 0o777))
	testkit.Must(t, os.Chmod(f.path("run"), 0o777)) // the child removes its PID file
	testkit.Must(t, os.Chmod(f.dir, 0o777))         // and creates sockets
	f.configure(twoSockets)
	f.start()
	f.await("on http over the unix socket .*/first\n")
	testkit.Equal(t, strings.TrimSpace(read(t, f.path("run/pid"))), strconv.Itoa(f.cmd.Process.Pid), "pid")
	first, second := f.over("first"), f.over("second")
	get(t, first, "http://any/", "one")
	get(t, second, "http://any/", "two")

	f.configure(strings.NewReplacer("second", "third", `"one"`, `"three"`).Replace(twoSockets))
	f.reload()
	f.await("no longer listening on http over the unix socket .*/second\n")
	get(t, first, "http://any/", "three") // by the connection that there was
	get(t, f.over("third"), "http://any/", "two")
	if _, err := f.over("second").Get("http://any/"); err == nil {
		t.Error("the socket that is gone is served")
	}

	for i, server := range []string{"listen unix:DIR/fourth; rubbish;", "listen unix:DIR/none/x; return 200 x;",
		"listen unix:DIR/fourth; location / { return 200 $nosuchvariable; }"} {
		f.configure("events {}\nhttp { server { " + server + " } }")
		f.reload()
		awaitRepeated(t, f.served, "reload: failed, still serving the old configuration", i+1)
		get(t, first, "http://any/", "three")
	}
	f.await(`reload: .*nginx.conf:2: unknown directive "rubbish"`)
	testkit.Fails(os.Stat(f.path("fourth")))(t, "", "a socket of a configuration that is wrong is left")

	f.stop(syscall.SIGTERM)
	for _, left := range []string{"first", "third", "run/pid"} {
		testkit.FailsWith(os.Stat(f.path(left)))(t, os.ErrNotExist, left, "is left")
	}
}

// passed starts the server with inherited sockets on free ports: PORT1 and so on in the
// configuration.
func (f *frontSite) passed(n int, conf string) (addrs []string) {
	f.t.Helper()
	cmd := exec.Command("sh", "-c", fmt.Sprintf("LISTEN_PID=$$ LISTEN_FDS=%d exec tare serve -c %s", n,
		f.path("nginx.conf")))
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.Must(f.t, err)
		defer l.Close()
		file, err := l.(*net.TCPListener).File()
		testkit.Must(f.t, err)
		defer file.Close()
		addrs = append(addrs, l.Addr().String())
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
		conf = strings.ReplaceAll(conf, fmt.Sprintf("PORT%d", i+1), l.Addr().String())
	}
	f.configure(conf)
	f.served = startServed(f.t, cmd)
	return addrs
}

// A server started as root becomes the configured user for good, by default nobody.
func TestFrontStartedAsRootBecomesTheUser(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	for user, who := range map[string]string{"": "nobody", "user www-data;": "www-data", "user 64123 64124;": "64123"} {
		f := newFrontSite(t)
		f.configure(user + "\nevents {}\nhttp { access_log DIR/log; server { listen unix:DIR/socket; location / { return 200 x; } } }")
		f.start()
		f.await("tare: running as " + who + ` \(`)
		get(t, f.over("socket"), "http://any/", "x")
		status := read(t, fmt.Sprintf("/proc/%d/status", f.cmd.Process.Pid))
		if strings.Contains(status, "Uid:\t0") || !strings.Contains(status, "NoNewPrivs:\t1") ||
			!strings.Contains(status, "CapPrm:\t0000000000000000") {
			t.Errorf("%s", status)
		}
		testkit.WaitFor(t, "the log", func() bool { return strings.Contains(read(t, f.path("log")), "GET / ") })
		f.stop(syscall.SIGTERM)
	}
}

// The serving user owns the folder of a cache, even an existing one, and can write to it. As in
// nginx, its parent is not created: root's could not be entered.
func TestCacheFolderIsOwnedByTheServingUser(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	const conf = `user nobody;
events {}
http {
	proxy_cache_path DIR/there keys_zone=there:1m;
	proxy_cache_path DIR/new keys_zone=new:1m;
	server { listen unix:DIR/socket; location / { return 200 x; } }
}`
	f := newFrontSite(t)
	f.configure(conf)
	testkit.Must(t, os.Mkdir(f.path("there"), 0o555))
	f.start()
	get(t, f.over("socket"), "http://any/", "x")
	for name, mode := range map[string]fs.FileMode{"there": 0o755, "new": 0o700} {
		info := testkit.Value(os.Stat(f.path(name)))(t)
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid == 0 || info.Mode().Perm() != mode {
			t.Errorf("%s: user %d, mode %v, want mode %v", name, uid, info.Mode().Perm(), mode)
		}
		testkit.Value(os.Stat(filepath.Join(f.path(name), "drafts")))(t)
	}
	f.stop(syscall.SIGTERM)

	f = newFrontSite(t)
	f.configure(`user nobody; events {} http { proxy_cache_path DIR/a/b keys_zone=one:1m; server { listen unix:DIR/socket; } }`)
	f.served = serveFiles(t, "-c", f.path("nginx.conf"))
	f.await(`cache "one": mkdir .*no such file or directory \(create .*/a first`)
	if code := f.wait(); code == 0 {
		t.Error("it starts without the folder's parent")
	}
	testkit.Fails(os.Stat(f.path("a")))(t, "", "the parent was made")
}

const refusedConf = `pid DIR/pid;
events {}
http {
	log_format short '$server_name|$remote_addr|$request|$status|$body_bytes_sent|$host|$request_uri|$http_user_agent';
	access_log DIR/log short; send_timeout 100ms; client_header_timeout 1s;
	server { listen unix:DIR/s; server_name first; location / { return 200 text; } location = /none { return 404; } location = /to { return 302 /x; } }
	server { listen unix:DIR/s; server_name second; access_log DIR/second short; return 200 second; }
}
`

// exchangeBytes sends a text to a socket and reads until the connection closes.
func (f *frontSite) exchangeBytes(socket, send string, whole bool) {
	f.t.Helper()
	nc, err := net.Dial("unix", f.path(socket))
	testkit.Must(f.t, err)
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(nc, send)
	if whole {
		_ = nc.(*net.UnixConn).CloseWrite()
	}
	if _, err := io.Copy(io.Discard, nc); os.IsTimeout(err) {
		f.t.Errorf("%q: the connection was not closed", send)
	}
}

// Requests that the server refuses appear in the log of the server block selected by address and
// Host, as in nginx.
func TestRefusedRequestsAreLogged(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	testkit.Must(t, os.Chmod(f.dir, 0o777))
	f.configure(refusedConf)
	f.start()
	for _, c := range []struct{ send, log, want string }{
		{"hello\r\n\r\n", "log", "first|unix:|hello|400|N|first|-|-"},
		{"\x16\x03\x01\r\n\r\n", "log", `first|unix:|\x16\x03\x01|400|N|first|-|-`},
		{"GET /a?b HTTP/1.1\r\nUser-Agent: ua\r\nHost: second\r\nHost: first\r\n\r\n", "second",
			"second|unix:|GET /a?b HTTP/1.1|400|N|second|/a?b|ua"},
		{"POST / HTTP/1.1\r\nHost: second\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "second",
			"second|unix:|POST / HTTP/1.1|400|N|second|/|-"},
		{"GET /%zz HTTP/1.1\r\nHost: second\r\n\r\n", "log", "first|unix:|GET /%zz HTTP/1.1|400|N|first|/%zz|-"},
		{"OPTIONS * HTTP/1.1\r\nHost: first\r\nConnection: close\r\n\r\n", "log",
			"first|unix:|OPTIONS * HTTP/1.1|400|N|first|*|-"},
		{"GET / HTTP/1.1\r\nHost: second\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "second",
			"second|unix:|GET / HTTP/1.1|431|N|second|/|-"},
		{"GET /x HT", "log", "first|unix:|GET /x HT|408|0|first|-|-"},
	} {
		before := read(t, f.path(c.log))
		f.exchangeBytes("s", c.send, false)
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(c.want), `\|N\|`,
			`\|[1-9][0-9]*\|`) + "\n$")
		testkit.WaitFor(t, "a line of the log", func() bool { return len(read(t, f.path(c.log))) > len(before) })
		if got := strings.TrimPrefix(read(t, f.path(c.log)), before); !want.MatchString(got) {
			t.Errorf("%.60q: got %q, want %q", c.send, got, c.want)
		}
	}
	f.exchangeBytes("s", "", true) // a client that sends nothing is not logged
	f.stop(syscall.SIGTERM)
	testkit.Equal(t, strings.Count(read(t, f.path("log"))+read(t, f.path("second")), "\n"), 8, "lines")
}

const verified = `events {}
http {
	server {
		listen PORT1 ssl http2;
		ssl_certificate DIR/one.pem; ssl_certificate_key DIR/one.key;
		VERIFY
		location / { return 200 "$ssl_client_verify"; }
	}
}
`

// A reload's rules for client certificates apply to connections that were open before: over
// HTTP/1.1 and HTTP/2, and to resumed sessions.
func TestReloadVerifiesClientCertificatesAgain(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	putCertificate(t, f.path("one.pem"), f.path("one.key"), 1)
	var clients [2]tls.Certificate
	for i := range clients {
		cert, key := tlstest.SelfSign(t, x509.Certificate{Subject: pkix.Name{CommonName: fmt.Sprint(i)}})
		pair := testkit.Value(tls.X509KeyPair(cert, key))(t)
		clients[i] = pair
		testkit.Must(t, os.WriteFile(f.path(fmt.Sprintf("ca%d.pem", i)), cert, 0o644))
	}
	conf := func(addr, verify string) string {
		return strings.NewReplacer("PORT1", addr, "VERIFY", verify).Replace(verified)
	}
	addr := f.passed(1, conf("PORT1", "ssl_verify_client on; ssl_client_certificate DIR/ca0.pem;"))[0]
	f.await("tare: running as ")
	sessions := tls.NewLRUClientSessionCache(10)
	config := func(protocol string) *tls.Config {
		return &tls.Config{
			InsecureSkipVerify: true, NextProtos: []string{protocol}, ClientSessionCache: sessions,
			// whatever it wants
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate,
				error) {
				return &clients[0], nil
			},
		}
	}
	http1 := func() (request func() string) {
		c := testkit.Value(tls.Dial("tcp", addr, config("http/1.1")))(t)
		t.Cleanup(func() { c.Close() })
		in := bufio.NewReader(c)
		return func() string {
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: any\r\n\r\n")
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				return "closed"
			}
			return statusAndBody(t, resp)
		}
	}
	transport := &http.Transport{TLSClientConfig: config("h2"), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	http2 := func() string {
		resp := testkit.Value((&http.Client{Transport: transport, Timeout: patience}).Get("https://" + addr))(t)
		testkit.Equal(t, resp.ProtoMajor, 2, "major version")
		return statusAndBody(t, resp)
	}
	for _, step := range []struct{ verify, want string }{
		{"", "200 SUCCESS"}, // as it was started
		{"ssl_verify_client on; ssl_client_certificate DIR/ca1.pem;", "400"},
		{"ssl_verify_client optional_no_ca; ssl_client_certificate DIR/ca1.pem;", "200 FAILED:self-signed certificate"},
		{"ssl_verify_client optional; ssl_client_certificate DIR/ca0.pem;", "200 SUCCESS"},
		{"ssl_verify_client off;", "200"},
		{"ssl_verify_client on; ssl_client_certificate DIR/ca0.pem;", "200 SUCCESS"},
	} {
		old := http1()
		before := old()
		http2()
		if step.verify != "" {
			f.configure(conf(addr, step.verify))
			f.reload()
		}
		for name, request := range map[string]func() string{"an open connection": old, "a new connection": http1(),
			"HTTP/2": http2} {
			got := request()
			switch {
			case strings.HasPrefix(got, step.want):
			case name == "an open connection" && before == "400" && got == "closed":
			// it was opened without a certificate
			case name != "a new connection" && step.want == "200 SUCCESS" && got == "400":
			default:
				t.Errorf("%s, %s: %q, want %q", step.verify, name, got, step.want)
			}
		}
		transport.CloseIdleConnections()
	}
	f.stop(syscall.SIGTERM)
}

// statusAndBody returns a response in short form; errors have pages.
func statusAndBody(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b := testkit.Value(io.ReadAll(resp.Body))(t)
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, b)
}
