//go:build unix

package cli_test

import (
	"bufio"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Signals are safe as soon as the PID file exists: they do not end the server.
func TestSignalsAreSafeOnceThePIDFileExists(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	pid := f.path("pid")
	if err := syscall.Mkfifo(pid, 0o600); err != nil {
		t.Skip(err)
	}
	fifo, err := os.OpenFile(pid, os.O_RDWR, 0) // the server finds a reader
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	f.configure("pid DIR/pid; events {} http { access_log DIR/log; server { listen unix:DIR/socket; } }")
	f.served = serveFiles(t, "-c", filepath.Join(f.dir, "nginx.conf"))
	if _, err := bufio.NewReader(fifo).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	f.signal(syscall.SIGHUP)
	f.await("reload: .*: new configuration active")
	f.signal(syscall.SIGUSR1)
	f.await("logs: reopened")
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
