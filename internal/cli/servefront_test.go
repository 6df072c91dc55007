package cli_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
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

func (f *frontSite) start(args ...string) {
	f.t.Helper()
	f.served = serveFiles(f.t, append([]string{"-c", f.path("nginx.conf")}, args...)...)
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
	before := count(f.stderr(), "reload: ")
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
	if err := os.Chmod(f.path("run"), 0o777); err != nil { // the child removes its PID file
		t.Fatal(err)
	}
	if err := os.Chmod(f.dir, 0o777); err != nil { // and creates sockets
		t.Fatal(err)
	}
	f.configure(twoSockets)
	f.start()
	f.await("on http over the unix socket .*/first\n")
	if pid := strings.TrimSpace(read(t, f.path("run/pid"))); pid != strconv.Itoa(f.cmd.Process.Pid) {
		t.Errorf("pid %q, want %d", pid, f.cmd.Process.Pid)
	}
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

	f.configure("events {}\nhttp { server { listen unix:DIR/fourth; rubbish; } }")
	f.reload()
	f.await(`reload: .*nginx.conf:2: unknown directive "rubbish"`)
	awaitRepeated(t, f.served, "reload: failed, still serving the old configuration", 1)
	get(t, first, "http://any/", "three")
	f.configure("events {}\nhttp { server { listen unix:DIR/none/x; location / { return 200 x; } } }")
	f.reload()
	awaitRepeated(t, f.served, "reload: failed, still serving the old configuration", 2)
	f.configure("events {}\nhttp { server { listen unix:DIR/fourth; location / { return 200 $nosuchvariable; } } }")
	f.reload()
	awaitRepeated(t, f.served, "reload: failed, still serving the old configuration", 3)
	if _, err := os.Stat(f.path("fourth")); err == nil {
		t.Error("a socket of a configuration that is wrong is left")
	}
	get(t, first, "http://any/", "three")

	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, left := range []string{"first", "third", "run/pid"} {
		if _, err := os.Stat(f.path(left)); !os.IsNotExist(err) {
			t.Errorf("%s is left", left)
		}
	}
}

// awaitText waits until a file contains a text.
func awaitText(t *testing.T, name, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never held %q", name, text)
		}
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
		if err != nil {
			f.t.Fatal(err)
		}
		defer l.Close()
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			f.t.Fatal(err)
		}
		defer file.Close()
		addrs = append(addrs, l.Addr().String())
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
		conf = strings.ReplaceAll(conf, fmt.Sprintf("PORT%d", i+1), l.Addr().String())
	}
	f.configure(conf)
	f.served = startServed(f.t, cmd)
	return addrs
}

// A host name in listen is resolved by the running server, and existing sockets stay open.
func TestListenResolvesHostNames(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	const conf = `events {}
http { server { listen PORT1; return 200 "one"; } }
`
	addr := f.passed(1, conf)[0]
	f.await("tare: running as ")
	_, port, _ := net.SplitHostPort(addr)
	f.configure(strings.NewReplacer("PORT1", "localhost:"+port, "one", "two").Replace(conf))
	f.reload()
	f.await("new configuration active\n")
	get(t, client(t, nil), "http://"+addr, "two")
	f.configure(strings.NewReplacer("PORT1", "localhost:"+port+"x", "one", "three").Replace(conf))
	f.reload()
	f.await(`reload: .*nginx.conf:2: directive "listen": "localhost:.*x": invalid port`)
	get(t, client(t, nil), "http://"+addr, "two")
	if strings.Contains(f.stderr(), "no longer listening on") {
		t.Errorf("a socket was given up:\n%s", f.stderr())
	}
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A server started as root becomes the configured user for good, by default nobody.
func TestFrontStartedAsRootBecomesTheUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
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
		awaitText(t, f.path("log"), "GET / ")
		if code := f.end(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}
