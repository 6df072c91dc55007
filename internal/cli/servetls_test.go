package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// putCertificate writes a new certificate with a serial number, and its key.
func putCertificate(t *testing.T, cert, key string, number int64) {
	t.Helper()
	public, secret := tlstest.SelfSign(t, x509.Certificate{SerialNumber: big.NewInt(number),
		DNSNames: []string{"example.org"}})
	replaceFile(t, cert, string(public))
	replaceFile(t, key, string(secret))
}

// replaceFile replaces a file by another, as programs that renew certificates do.
func replaceFile(t *testing.T, name, text string) {
	t.Helper()
	write(t, name+".new", text)
	testkit.Must(t, os.Rename(name+".new", name))
}

// number returns the serial number of the certificate on a new connection.
func number(t *testing.T, url string) int64 {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	resp := testkit.Value((&http.Client{Transport: transport, Timeout: patience}).Get(url))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Proto != "HTTP/2.0" {
		t.Fatalf("%s %s", resp.Proto, resp.Status)
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
}

func wantNumber(t *testing.T, url string, want int64) {
	t.Helper()
	testkit.Equal(t, number(t, url), want, "certificate")
}

// An invalid certificate does not replace the current one; a valid one does, with and without a
// signal.
func TestInvalidCertificateDoesNotReplaceTheCurrentOne(t *testing.T) {
	t.Parallel()
	dir := site(t)
	cert, key := filepath.Join(filepath.Dir(dir), "cert.pem"), filepath.Join(filepath.Dir(dir), "key.pem")
	putCertificate(t, cert, key, 1)
	s := serveFiles(t, "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--cert", cert, "-k", key, dir)
	url := "https://" + s.address()
	s.await("certificate: example.org, until .*; reloaded when it changes")
	wantNumber(t, url, 1)

	replaceFile(t, cert, "rubbish")
	s.await("certificate: still serving the old one: .*failed to find any PEM data")
	wantNumber(t, url, 1)
	putCertificate(t, cert, key, 2)
	s.await("certificate: serving a new one: example.org")
	wantNumber(t, url, 2)

	testkit.Must(t, os.Remove(key))
	s.signal(syscall.SIGHUP)
	s.await("certificate: still serving the old one: key: .*no such file")
	wantNumber(t, url, 2)
	putCertificate(t, cert, key, 3)
	awaitRepeated(t, s, "serving a new one", 2)
	s.signal(syscall.SIGHUP)
	s.await("certificate: unchanged\n")
	wantNumber(t, url, 3)
	s.stop(syscall.SIGTERM)
}

// insecure makes a client accept any certificate.
func insecure(c *http.Client) {
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
}

// A connection is closed if its PROXY protocol header is malformed, or does not come in time. Package
// corpus compares with nginx which headers count.
func TestConnectionsWithoutProxyHeaderAreClosed(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	addr := f.passed(1, `events {}
http { client_header_timeout 1s; server { listen PORT1 proxy_protocol; return 200 "served"; } }
`)[0]
	f.await("tare: running as ")
	for _, sent := range []string{"GET / HTTP/1.0\r\n\r\n", "PROXY TCP4 192.0.2.1 "} {
		c := testkit.Value(net.Dial("tcp", addr))(t)
		defer c.Close()
		testkit.Must(t, c.SetDeadline(time.Now().Add(patience)))
		fmt.Fprint(c, sent)
		if b, err := io.ReadAll(c); len(b) > 0 || os.IsTimeout(err) {
			t.Errorf("%q: %q, %v", sent, b, err)
		}
	}
	f.await("http: connection from 127.0.0.1:[0-9]+ closed: malformed PROXY protocol header")
	f.stop(syscall.SIGTERM)
}

const secured = `events {}
http {
	server {
		listen PORT1 ssl http2;
		ssl_certificate DIR/one.pem; ssl_certificate_key DIR/one.key;
		location / { return 200 "before"; }
	}
}
`

// No request over TLS is lost while connections move to new servers, with HTTP/1.1 and HTTP/2.
// Clients do not retry POST once it may have arrived. Each reload reads the certificate again.
func TestReloadLosesNoTLSRequest(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	putCertificate(t, f.path("one.pem"), f.path("one.key"), 1)
	addrs := f.passed(1, secured)
	f.await("tare: running as ")
	results := make(chan error, 4)
	var stopped atomic.Bool
	var served [2]atomic.Int64
	for i := range 4 {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(i%2 == 0)
		protocols.SetHTTP2(i%2 == 1)
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: protocols}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport, Timeout: patience}
		go func() {
			for !stopped.Load() {
				resp, err := client.Post("https://"+addrs[0], "text/plain", strings.NewReader("x"))
				if err != nil {
					results <- err
					return
				}
				resp.Body.Close()
				served[i%2].Add(1)
			}
			results <- nil
		}()
	}
	for n := range 5 {
		before := [2]int64{served[0].Load(), served[1].Load()}
		f.configure(strings.NewReplacer("PORT1", addrs[0], "before", fmt.Sprint(n)).Replace(secured))
		putCertificate(t, f.path("one.pem"), f.path("one.key"), int64(n)+2)
		f.reload()
		wantNumber(t, "https://"+addrs[0], int64(n)+2)
		testkit.WaitFor(t, "more requests to be served", func() bool {
			select {
			case err := <-results:
				t.Fatal(err)
			default:
			}
			return served[0].Load() >= before[0]+20 && served[1].Load() >= before[1]+20
		})
	}
	stopped.Store(true)
	for range 4 {
		testkit.Check(t, <-results)
	}
	f.stop(syscall.SIGQUIT)
}

// acmeFront returns the folder of a server whose certificate is issued by a Pebble, and the address
// of its TLS.
func acmeFront(t *testing.T) (f *frontSite, address string) {
	t.Helper()
	f = newFrontSite(t)
	free := programs.FreeAddresses(t, 2)
	plain, secure := free[0], free[1]
	pebble := programs.StartPebble(t, programs.PebbleConfig{HTTPPort: portOf(t, plain), TLSPort: portOf(t, secure)})
	ca := testkit.Value(os.ReadFile(pebble.CAFile))(t)
	write(t, f.path("ca.pem"), string(ca))
	f.configure(fmt.Sprintf(`user nobody;
events {}
http {
	acme_issuer pebble { uri %s; ssl_trusted_certificate DIR/ca.pem; state_path DIR/state; accept_terms_of_service; }
	server { listen %s; return 301 https://$host/; }
	server {
		listen %s ssl; server_name a.test; acme_certificate pebble; return 200 a;
		ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
	}
}
`, pebble.Directory, plain, secure))
	return f, secure
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	testkit.Must(t, err)
	return testkit.Value(strconv.Atoi(port))(t)
}

func serialOf(t *testing.T, address string) string {
	t.Helper()
	c := testkit.Value(tls.Dial("tcp", address, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true}))(t)
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// Started as root, the folder of the state belongs to the user that serves, and to no one else. The
// state outlives reloads and restarts.
func TestServingUserOwnsTheACMEFolder(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	f, address := acmeFront(t)
	f.start()
	f.await("tare: acme: a.test: no certificate yet: TLS handshakes for it fail until pebble has issued one\n")
	f.await("tare: acme: a.test: pebble has issued a certificate, valid until ")
	before := serialOf(t, address)
	f.reload()
	testkit.Equal(t, serialOf(t, address), before, "serial number after a reload")
	f.stop(syscall.SIGTERM)
	err := filepath.WalkDir(f.path("state"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner == 0 || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the owner %d and the mode %v", path, owner, info.Mode())
		}
		return nil
	})
	testkit.Check(t, err)
	f.start()
	f.await("tare: acme: a.test: certificate valid until .*, renewal about ")
	testkit.Equal(t, serialOf(t, address), before, "serial number after a restart")
	f.end(syscall.SIGTERM)
}

// If the serving user cannot use the folder or a file in it, the start or the next order reports
// that. -t reports it without changing anything, as far as it can.
func TestUnusableACMEFolderIsReported(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	f, _ := acmeFront(t)
	if out, code := runTare(t, "serve", "-t", "-c", f.path("nginx.conf")); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	testkit.Fails(os.Stat(f.path("state")))(t, "", "-t has created the folder of the state")
	testkit.Must(t, os.Mkdir(f.path("state"), 0o700))
	write(t, f.path("state/account.key"), "secret")
	testkit.Must(t, os.Chmod(f.path("state/account.key"), 0o600))
	f.start()
	f.await(`tare: acme: a.test: pebble: account key: open .*/state/account.key: permission denied\n`)
	f.await(`tare: acme: a.test: no certificate yet: TLS handshakes for it fail; next attempt in `)
	f.end(syscall.SIGTERM)
	old, gone := "state_path "+f.path("state"), "state_path "+f.path("no/state")
	text := strings.Replace(read(t, f.path("nginx.conf")), old, gone, 1)
	write(t, f.path("nginx.conf"), text)
	out, code := runTare(t, "serve", "-c", f.path("nginx.conf"))
	if code == 0 || !strings.Contains(out, "acme_issuer pebble: state_path: ") ||
		!strings.Contains(out, "create "+f.path("no")+" first") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// runTare runs the command and returns its output and exit code.
func runTare(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	cmd := serveCommandLine()
	cmd.Args = append(cmd.Args[:1], args...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// A command that was built with HTTP/3 serves it, and loads a server by it. It also exports spans.
// The default one reports how to build it.
func TestHTTP3AndTracingAreOptionsOfTheBuild(t *testing.T) {
	testkit.Long(t, "it builds the command")
	t.Parallel()
	dir := openDir(t)
	program := filepath.Join(dir, "tare")
	build := exec.Command("go", "build", "-pgo=off", "-ldflags=-s", "-tags", "http3 otel", "-o", program, "./cmd/tare")
	build.Dir = programs.Root(t)
	testkit.Succeeds(t, build)
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost"}})
	write(t, filepath.Join(dir, "cert.pem"), string(append(cert, key...)))
	address := programs.FreeAddresses(t, 1)[0]
	events := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(100 * time.Millisecond) // otherwise the response may be forwarded at once, with its length
	}))
	defer events.Close()
	file := filepath.Join(dir, "nginx.conf")
	write(t, file, strings.NewReplacer("DIR", dir, "ADDR", address, "EVENTS", events.URL).Replace(`events {}
		http { access_log DIR/access.log; otel_exporter { endpoint 127.0.0.1:1; } server { listen ADDR quic;
		location / { return 200 "$http3\n"; } location /events { proxy_pass EVENTS; proxy_buffering off; }
		add_trailer Sum 1; ssl_certificate DIR/cert.pem; ssl_certificate_key DIR/cert.pem; } }`))
	out, err := exec.Command("tare", "serve", "-c", file, "-t").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "built without HTTP/3 (build it with -tags http3)") ||
		!strings.Contains(string(out), "built without OpenTelemetry (build it with -tags otel)") {
		t.Errorf("the default command: %v: %s", err, out)
	}
	url := "https://" + address + "/"
	out, err = exec.Command("tare", "load", url, "--http3", "-n", "1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "built without HTTP/3 (build it with -tags http3)") {
		t.Errorf("load by the default command: %v: %s", err, out)
	}
	s := startServed(t, exec.Command(program, "serve", "-c", file))
	s.await("listening on https://" + regexp.QuoteMeta(address) + "/, by HTTP/3")
	write(t, filepath.Join(dir, "urls"), url+"a/{{seq}}\n/b/{{seq}}\nHTTPS://"+address+"/c\n")
	for _, more := range [][]string{{"-n", "500"}, {"-n", "100", "--close"}, {"-n", "50", "--rate", "50"},
		{"-n", "20", "--template", "--urls", filepath.Join(dir, "urls")}} {
		args := append([]string{"load", url, "--http3", "--insecure", "-c", "4", "--expect-status", "200",
			"--expect-header", "Content-Type: text/plain", "--expect-header", "Sum: 1"}, more...)
		out, err = exec.Command(program, args...).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), url+"\n") {
			t.Errorf("%v: %v: %s", more, err, out)
		}
	}
	out, err = exec.Command(program, "load", url+"events", "--http3", "--insecure", "-n", "3").CombinedOutput()
	testkit.Matches(t, string(out), `(?m)^events +[1-3] `, err)
	load := exec.Command(program, "load", url, "--http3", "-d", "2s") // until it has connected
	out, _ = load.CombinedOutput()
	if code := load.ProcessState.ExitCode(); code != 3 || !strings.Contains(string(out),
		"no connection to "+url+": HTTP/3: CRYPTO_ERROR 0x12a (local): tls: failed to verify certificate: ") {
		t.Errorf("an unknown certificate: exit code %d: %s", code, out)
	}
	log, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if n := strings.Count(string(log), "HTTP/3.0"); err != nil || n < 600 {
		t.Errorf("%d requests by HTTP/3, %v", n, err)
	}
	for _, path := range []string{"a", "b"} {
		testkit.Matches(t, string(log), `GET /`+path+`/\d+ HTTP/3\.0`)
	}
	s.stop(syscall.SIGQUIT)
}

// ignoring returns a command that starts the server with SIGHUP and SIGINT ignored, as nohup and
// background jobs of shell scripts do.
func ignoring(args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", `trap "" HUP INT; exec tare serve "$@"`, "sh"}, args...)...)
}

// A file server without a certificate has nothing to reload: SIGHUP ends it, except under nohup.
func TestFileServerIgnoresSIGHUPUnderNohup(t *testing.T) {
	t.Parallel()
	dir := site(t)
	s := startServed(t, ignoring("--listen", "127.0.0.1:0", dir))
	address := s.address()
	for i := range 5 {
		s.signal(syscall.SIGHUP)
		s.signal(syscall.SIGUSR1)
		awaitRepeated(t, s, "logs: reopened", i+1) // it still handles signals
	}
	get(t, http.DefaultClient, "http://"+address, "hello")
	s.stop(syscall.SIGTERM)
	s = serveFiles(t, "--listen", "127.0.0.1:0", dir)
	s.address()
	testkit.Equal(t, s.end(syscall.SIGHUP), 0, "exit code without nohup")
}

func TestSIGHUPReloadsTheCertificateUnderNohup(t *testing.T) {
	t.Parallel()
	dir := site(t)
	cert, key := filepath.Join(filepath.Dir(dir), "cert.pem"), filepath.Join(filepath.Dir(dir), "key.pem")
	putCertificate(t, cert, key, 1)
	s := startServed(t, ignoring("--listen", "127.0.0.1:0", "--cert", cert, "-k", key, dir))
	s.await("certificate: example.org, until")
	s.signal(syscall.SIGHUP)
	s.await("certificate: unchanged")
}
