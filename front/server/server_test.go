package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// A program serves an nginx.conf over TLS, reloads it, and finishes its requests when it drains. A
// Reload of an invalid configuration changes nothing.
func TestProgramServesReloadsAndDrains(t *testing.T) {
	p := start(t, "return 200 first;")
	if resp, body := p.get("/"); body != "first" || resp.ProtoMajor != 2 {
		t.Errorf("%s: %q, want HTTP/2 and %q", resp.Proto, body, "first")
	}
	p.configure("return 200 second;")
	testkit.Must(t, p.server.Reload())
	_, body := p.get("/")
	testkit.Equal(t, body, "second", "after the reload")
	p.configure("unknown_directive on;")
	err := p.server.Reload()
	testkit.As[*server.ConfigError](t, err, "unknown_directive", "Reload")
	_, body = p.get("/")
	testkit.Equal(t, body, "second", "after the failed reload")

	result := make(chan string)
	go func() {
		_, body := p.get("/app")
		result <- body
	}()
	<-p.begun
	p.server.Drain()
	for isOpen := true; isOpen; { // the server does not accept connections any more
		c, err := net.Dial("tcp", p.addr)
		if isOpen = err == nil; isOpen {
			c.Close()
		}
	}
	close(p.finish)
	testkit.Equal(t, <-result, "from the program", "the response to a request in progress")
	testkit.Check(t, <-p.ended)
	testkit.Is(t, p.server.Reload(), server.ErrNotServing, "a Reload after the end")
}

// A check fails where a start would, because a folder does not exist. A warning says where relative
// paths start.
func TestCheckFindsMissingFolders(t *testing.T) {
	for text, line := range map[string]string{
		"pid DIR/no/pid; events {} http { server { listen unix:DIR/s; } }":                           "pid",
		"events {} http { server { listen unix:DIR/no/s; } }":                                        "listen",
		"events {} http { proxy_cache_path DIR/no/c keys_zone=a:1m; server { listen unix:DIR/s; } }": "cache",
		"events {} http { access_log DIR/no/a; server { listen unix:DIR/s; } }":                      "access_log",
		"events {} http { client_body_in_file_only on; client_body_temp_path DIR/no/b; server { } }": "body_temp",
	} {
		for _, dir := range []string{t.TempDir(), "."} {
			path, log := filepath.Join(t.TempDir(), "nginx.conf"), new(testkit.Log)
			testkit.Must(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
			err := server.Check(server.File{Path: path}, server.Options{Stdout: log, Stderr: log, NoSignals: true})
			testkit.Is(t, err, fs.ErrNotExist, text)
			testkit.Error(t, err, line, text)
			testkit.Equal(t, strings.Contains(log.String(), "without a prefix"), dir == ".", text)
		}
	}
}

// program is a running Server with a bound handler.
type program struct {
	*testing.T
	server        *server.Server
	addr          string
	conf, key     string // files
	client        *http.Client
	begun, finish chan struct{} // of the bound handler
	ended         <-chan error  // the result of Run
}

func start(t *testing.T, location string) *program {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	dir := t.TempDir()
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost"}})
	p := &program{T: t, addr: l.Addr().String(), conf: filepath.Join(dir, "nginx.conf"),
		key: filepath.Join(dir, "localhost.pem"), begun: make(chan struct{}), finish: make(chan struct{})}
	testkit.Must(t, os.WriteFile(p.key, append(cert, key...), 0o600))
	p.configure(location)
	p.client = &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}}}
	app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(p.begun)
		<-p.finish
		io.WriteString(w, "from the program")
	})
	p.server, p.ended = run(t, p.conf, server.Options{Listeners: []net.Listener{l}}, server.Bind("app", app))
	t.Cleanup(p.client.CloseIdleConnections)
	return p
}

// run runs a Server of a file until the end of the test, and returns it once it serves. ended has the
// result of Run, and is closed. Without outputs the Server's are discarded.
func run(t testing.TB, path string, o server.Options, bound ...server.Binding) (s *server.Server, ended <-chan error) {
	t.Helper()
	return runSource(t, server.File{Path: path, Options: nginxconf.Options{Prefix: filepath.Dir(path)}}, o, bound...)
}

func runSource(t testing.TB, from server.Source, o server.Options, bound ...server.Binding) (s *server.Server,
	ended <-chan error) {
	t.Helper()
	if o.Stdout == nil {
		o.Stdout, o.Stderr = io.Discard, io.Discard
	}
	ready := make(chan struct{}, 1)
	o.NoSignals, o.Ready = true, func() {
		select {
		case ready <- struct{}{}:
		default: // a reload
		}
	}
	s = server.New(from, o, bound...)
	return s, testkit.Run(t, s.Run, ready)
}

// dial connects to a server, with a deadline, and sends a text.
func dial(t testing.TB, network, address, text string) net.Conn {
	t.Helper()
	c := testkit.Value(net.Dial(network, address))(t)
	t.Cleanup(func() { c.Close() })
	testkit.Must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, _ = io.WriteString(c, text) // the server may have ended the connection
	return c
}

// configure writes nginx.conf with a directive for location /.
func (p *program) configure(directive string) {
	p.Helper()
	content := fmt.Sprintf(`
events {}
http {
	server {
		listen %s ssl http2;
		server_name localhost;
		ssl_certificate %s;
		ssl_certificate_key %s;
		location / { %s }
		location /app { proxy_pass http://app; }
	}
}`, p.addr, p.key, p.key, directive)
	testkit.Must(p, os.WriteFile(p.conf, []byte(content), 0o644))
}

func (p *program) get(path string) (*http.Response, string) {
	resp, err := p.client.Get("https://" + p.addr + path)
	if err != nil {
		p.Error(err)
		return &http.Response{}, ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Check(p, err)
	return resp, string(body)
}

// A Config with a Handler serves all requests by it, with a log, and closes it at the end. An error
// of the function that makes it ends Run.
func TestConfigWithHandlerServesIt(t *testing.T) {
	dir := t.TempDir()
	socket, log := filepath.Join(dir, "socket"), filepath.Join(dir, "log")
	closer := testkit.Value(os.Open(os.DevNull))(t)
	handler := struct {
		http.Handler
		io.Closer
	}{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }), closer}
	host := conf.Host{Listen: []conf.Listen{{Addr: "unix:" + socket}}}
	host.Defaults = &conf.Settings{Logs: []conf.Log{{Path: log}}}
	config := &server.Config{Name: "a handler", Front: conf.Config{Hosts: []conf.Host{host}}}
	config.Handler = func() (http.Handler, error) { return nil, errors.New("no handler") }
	options := server.Options{Stdout: io.Discard, Stderr: io.Discard, NoSignals: true}
	testkit.Error(t, server.Run(t.Context(), config, options), "no handler")

	config.Handler = func() (http.Handler, error) { return handler, nil }
	s, ended := runSource(t, config, options)
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	resp := testkit.Value(client.Get("http://any/a//b"))(t)
	b := testkit.Value(io.ReadAll(resp.Body))(t)
	resp.Body.Close()
	testkit.Equal(t, string(b), "/a//b")
	s.Drain()
	testkit.Check(t, <-ended)
	testkit.Error(t, closer.Close(), "already closed", "the handler")
	line := testkit.Value(os.ReadFile(log))(t)
	testkit.Matches(t, string(line), `^unix: - - \[[^]]*\] "GET /a//b HTTP/1.1" 200 5 "-" "Go-http-client/1.1"\n$`)
}

// As in nginx, a reload reopens logs that were renamed, also if the configuration is the same: a
// script of logrotate may reload the service.
func TestReloadReopensRenamedLogs(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "access.log")
	p := start(t, "access_log "+name+"; return 200 first;")
	p.get("/before")
	awaitText(t, name, "/before")
	testkit.Must(t, os.Rename(name, name+".1"))
	testkit.Must(t, p.server.Reload())
	p.get("/after")
	awaitText(t, name, "/after")
	testkit.Must(t, os.RemoveAll(dir)) // reopening fails, which does not fail the reload
	p.configure("return 200 second;")
	testkit.Must(t, p.server.Reload())
	_, body := p.get("/")
	testkit.Equal(t, body, "second")
}

// awaitText waits until a file contains a text.
func awaitText(t *testing.T, name, text string) {
	t.Helper()
	testkit.WaitFor(t, text+" in "+name, func() bool {
		b, _ := os.ReadFile(name) // it may not exist yet
		return strings.Contains(string(b), text)
	})
}
