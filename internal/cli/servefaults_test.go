package cli_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit/programs"
)

// On a disk without space, requests whose bodies need a temporary file get 500, and the log names
// the error. Others are served, and all are when there is space again.
func TestFullDiskRejectsLargeBodies(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	f := newFrontSite(t)
	disk := f.path("disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	f.configure(`user 64123 64123;
events {}
http {
	server { listen 127.0.0.1:81; return 200 "stored"; }
	server { listen 127.0.0.1:80; location / { proxy_pass http://127.0.0.1:81; } }
}`)
	f.served = startApart(t, disk, "env", "TMPDIR="+disk, "tare", "serve", "-c", f.path("nginx.conf"))
	f.await("tare: running as 64123")
	c := within(t, f.cmd.Process.Pid)
	post := func(size, want int) {
		t.Helper()
		resp, err := c.Post("http://127.0.0.1/", "text/plain", strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d bytes: status %d, want %d", size, resp.StatusCode, want)
		}
	}
	const small, large = 1 << 10, 128 << 10 // the disk has 64 KB
	post(small, http.StatusOK)
	post(large, http.StatusInternalServerError)
	f.await(`\[crit\].* reading the request's body: write .*: no space left on device`)
	post(small, http.StatusOK)
	enlarge(t, f.cmd.Process.Pid, disk)
	post(large, http.StatusOK)
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// An address that another process uses is reported with the reason: at the start the server exits,
// at a reload it continues with the old configuration.
func TestAddressInUseIsReported(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	want := "listen " + regexp.QuoteMeta(other.Addr().String()) + ": in use by another process"
	f := newFrontSite(t)
	f.configure("events {}\nhttp { server { listen " + other.Addr().String() + "; return 200; } }")
	f.served = serveFiles(t, "-c", f.path("nginx.conf"))
	f.await("tare: serve: " + want)
	if code := f.wait(); code != 1 {
		t.Errorf("exit code %d", code)
	}

	const good = "events {}\nhttp { server { listen unix:DIR/socket;%s location / { return 200 good; } } }"
	f.configure(fmt.Sprintf(good, ""))
	f.start()
	f.configure(fmt.Sprintf(good, " listen "+other.Addr().String()+";"))
	f.reload()
	f.await("tare: reload: " + want)
	f.await("tare: reload: failed, still serving the old configuration")
	get(t, f.over("socket"), "http://any/", "good")
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A server that was killed starts again at once on its port, also if the kernel still has a
// connection that it had closed, in state TIME_WAIT.
func TestServerStartsBesideClosedConnections(t *testing.T) {
	t.Parallel()
	address := programs.FreeAddresses(t, 1)[0]
	f := newFrontSite(t)
	f.configure("events {}\nhttp { keepalive_timeout 0; server { listen " + address + "; return 200 good; } }")
	f.start()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: any\r\n\r\n")
	if text, readErr := io.ReadAll(nc); err != nil || readErr != nil || !strings.HasSuffix(string(text), "good") {
		t.Errorf("%q, %v, %v", text, err, readErr)
	}
	nc.Close() // after the server
	f.signal(syscall.SIGKILL)
	f.wait()
	f.start()
	get(t, client(t, nil), "http://"+address, "good")
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
