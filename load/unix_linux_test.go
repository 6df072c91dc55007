package load_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// shortQueue returns a unix socket whose backlog holds two connections.
func shortQueue(t *testing.T) (path string, l net.Listener) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	testkit.Must(t, err)
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	testkit.Must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	testkit.Must(t, syscall.Listen(fd, 1))
	if l, err = net.FileListener(f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return path, l
}

// A unix socket refuses connections at once when its backlog is full. That is no error unless it
// lasts.
func TestFullBacklogIsRetried(t *testing.T) {
	testkit.Long(t, "it takes seconds")
	path, l := shortQueue(t)
	connected := false
	r := runUntil(t, load.Plan{URL: "http+unix://" + path, Connections: 200, Timeout: 100 * time.Millisecond,
		Trace: &load.Trace{Connected: func() { connected = true }}},
		func(p load.Progress) bool { return p.Errors.Timeout > 0 })
	if !connected || r.Requests != 0 || r.Errors.Timeout == 0 || r.Errors.Timeout != r.Errors.Total() ||
		!strings.HasPrefix(r.Errors.First, "timeout: ") {
		t.Errorf("connected: %t; %d requests, errors %+v", connected, r.Requests, r.Errors)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go server.Serve(l)
	defer server.Close()
	r = run(t, load.Plan{Requests: 40, URL: "http+unix://" + path, Connections: 20})
	if r.Requests != 40 || r.Errors.Total() != 0 {
		t.Errorf("%d opened, %d requests, errors %+v", r.Opened, r.Requests, r.Errors)
	}
}
