package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// What a person reads in the log, and what clients receive, when something goes wrong.

// A machine restart leaves a unix socket, PID files and parts of cached responses behind. The
// server starts again without help, and serves what it had cached.
func TestServerStartsAfterAMachineRestart(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	if err := errors.Join(os.Mkdir(f.path("run"), 0o777), os.Chmod(f.path("run"), 0o777)); err != nil {
		t.Fatal(err)
	}
	const conf = `pid DIR/run/pid;
events {}
http {
	proxy_cache_path DIR/run/cache keys_zone=one:1m;
	server { listen unix:DIR/run/app; access_log off; location / { %s } }
	server { listen unix:DIR/run/socket; access_log DIR/run/access.log; location / { proxy_cache one; proxy_cache_key $uri;
		proxy_pass http://unix:DIR/run/app; add_header X-Cache $upstream_cache_status always; } }
}`
	f.configure(fmt.Sprintf(conf, `add_header Cache-Control max-age=3600; return 200 "page";`))
	f.start()
	visit := func() (found string) {
		t.Helper()
		resp, err := f.over("run/socket").Get("http://any/x")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Header.Get("X-Cache") + " " + string(b)
	}
	if a, b := visit(), visit(); a != "MISS page" || b != "HIT page" {
		t.Errorf("got %s and %s", a, b)
	}
	awaitText(t, f.path("run/access.log"), "GET /x")
	awaitStored(t, f.path("run/cache"))
	f.signal(syscall.SIGKILL) // as power does
	f.wait()
	if _, err := f.over("run/socket").Get("http://any/x"); err == nil {
		t.Error("a response without a server")
	}
	drafts, err := filepath.Glob(f.path("run/cache/drafts"))
	if err != nil || len(drafts) != 1 {
		t.Fatal(drafts, err)
	}
	before := read(t, f.path("run/access.log"))
	half := filepath.Join(drafts[0], "half")
	write(t, half, "a response that was being written")
	write(t, f.path("run/pid"), "1\n")
	write(t, f.path("run/pid.oldbin"), "1\n")

	// The folder is read beside requests. Until then the application responds, and that is not stored.
	f.configure(fmt.Sprintf(conf, "return 404;"))
	f.start()
	visits := 1
	for deadline := time.Now().Add(patience); visit() != "HIT page"; visits++ {
		if time.Now().After(deadline) {
			t.Fatal("the cached response is lost")
		}
	}
	if pid := strings.TrimSpace(read(t, f.path("run/pid"))); pid != fmt.Sprint(f.cmd.Process.Pid) {
		t.Errorf("pid %s, want %d", pid, f.cmd.Process.Pid)
	}
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	after, ok := strings.CutPrefix(read(t, f.path("run/access.log")), before)
	if !ok || count(after, "GET /x") != visits {
		t.Errorf("the log continues with %q, want %d lines", after, visits)
	}
}

// awaitStored waits until a cache's folder has a file: a response is written after it was served.
func awaitStored(t *testing.T, folder string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stored := false
		err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
			stored = stored || err == nil && d.Type().IsRegular() && filepath.Base(filepath.Dir(path)) != "drafts"
			return err
		})
		if stored {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no file: %v", folder, err)
		}
	}
}

// A full disk costs cached responses and log lines, no response. The log names the disk's error,
// and later the number of lost lines.
func TestFullDiskCostsNoResponse(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	f := newFrontSite(t)
	if err := os.Mkdir(f.path("disk"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.configure(`user 64123 64123;
events {}
http {
	access_log DIR/disk/access.log;
	proxy_cache_path DIR/disk/cache keys_zone=one:1m;
	server { listen 127.0.0.1:81; location / { add_header Cache-Control max-age=3600; return 200 "hello"; } }
	server { listen 127.0.0.1:80; location / { proxy_cache one; proxy_cache_key $uri$is_args$args;
		proxy_pass http://127.0.0.1:81; } }
}`)
	f.served = serveApart(t, f.path("disk"), "-c", f.path("nginx.conf"))
	f.await("tare: running as 64123")
	pid := f.cmd.Process.Pid
	c := within(t, pid)
	flood(t, c, "http://127.0.0.1", enough)
	f.await("access.log: write .*access.log: no space left on device; lines wait")
	for n := range 50 { // each would be stored
		get(t, c, fmt.Sprintf("http://127.0.0.1/?%d", n), "hello")
	}
	enlarge(t, pid, f.path("disk"))
	f.await(`access.log: writing lines again; \d+ were lost`)
	get(t, c, "http://127.0.0.1/?after", "hello")
}

// A broken configuration changes nothing for clients. The log names file, line and reason of each
// error, and what is served.
func TestBrokenConfigurationIsReportedOnReload(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	const good = "events {}\nhttp { server { listen unix:DIR/socket; location / { return 200 good; } } }\n"
	f.configure(good)
	f.start()
	c := f.over("socket")
	for i, broken := range []struct{ conf, want string }{
		{"events {}\nhttp {\n\tserver { lissen 80; }\n", `tare: reload: .*nginx.conf:4: unexpected end of file`},
		{"events {}\nhttp {\n\tserver { listen unix:DIR/socket; retrun 200; }\n}",
			`tare: reload: .*nginx.conf:3: unknown directive "retrun"`},
		{"events {}\nhttp { server { listen unix:DIR/socket; location / { proxy_pass http://$host; } include none.conf; } }",
			`tare: reload: .*none.conf: no such file or directory`},
		{"events {}\nhttp { server { listen unix:DIR/missing/socket; } }", `tare: reload: listen unix:.*missing/socket: `},
	} {
		f.configure(broken.conf)
		f.reload()
		f.await(broken.want)
		awaitRepeated(t, f.served, "tare: reload: failed, still serving the old configuration", i+1)
		get(t, c, "http://any/", "good")
	}
	f.configure(strings.Replace(good, "good", "better", 1))
	f.reload()
	f.await("tare: reload: .*: new configuration active")
	get(t, c, "http://any/", "better")
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// With an expired certificate the server starts and logs a warning. Clients reject the
// certificate; a renewed one is served without a reload, also if the new files appear one after the
// other.
func TestExpiredCertificateIsReported(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	put := func(until time.Time) *x509.CertPool {
		t.Helper()
		cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: []string{"example.org"},
			NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until})
		replaceFile(t, f.path("cert.pem"), string(cert))
		replaceFile(t, f.path("key.pem"), string(key))
		openToAll(t, f.path("cert.pem"), f.path("key.pem"))
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(cert)
		return pool
	}
	visit := func(addr string, trusted *x509.CertPool) error {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "example.org"}}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + addr)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	expired := put(time.Now().Add(-time.Hour))
	addr := f.passed(1, `events {}
http { server { listen PORT1 ssl; ssl_certificate DIR/cert.pem; ssl_certificate_key DIR/key.pem; return 200; } }`)[0]
	f.await(`tare: certificate: .*cert.pem, example.org, until .* \(expired, renew it\)`)
	if err := visit(addr, expired); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("a client: %v, want an expired certificate", err)
	}
	renewed := put(time.Now().Add(90 * 24 * time.Hour))
	f.await("certificate: .*(serving a new one|a new one is served)")
	if err := visit(addr, renewed); err != nil {
		t.Error(err)
	}
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// The first process of a container cannot be replaced: its end would end the container.
func TestUpgradeOfProcessOneIsRejected(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	f := newFrontSite(t)
	if err := os.Mkdir(f.path("disk"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.configure("events {}\nhttp { server { listen 127.0.0.1:80; return 200 x; } }")
	f.served = serveApart(t, f.path("disk"), "-c", f.path("nginx.conf"))
	f.await("tare: running as ")
	f.signal(syscall.SIGUSR2)
	f.await("tare: upgrade: the end of process 1 ends its container: start a new container")
	f.await("tare: upgrade: failed, this process serves on")
	get(t, within(t, f.cmd.Process.Pid), "http://127.0.0.1/", "x")
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
