package cli_test

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// On a disk without space, requests whose bodies need a temporary file get 500, and the log names
// the error. Others are served, and all are when there is space again.
func TestFullDiskRejectsLargeBodies(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	f := newFrontSite(t)
	disk := f.path("disk")
	testkit.Must(t, os.Mkdir(disk, 0o755))
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
		testkit.Must(t, err)
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
