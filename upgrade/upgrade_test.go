package upgrade_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/upgrade"
)

func newUpgrader(t *testing.T, o upgrade.Options) *upgrade.Upgrader {
	t.Helper()
	u, err := upgrade.New(o)
	testkit.Must(t, err)
	return u
}

// Upgrade fails before the process is ready, after Stop, and on systems that cannot pass sockets.
func TestUpgradeReportsStates(t *testing.T) {
	u := newUpgrader(t, upgrade.Options{})
	if err := u.Upgrade(t.Context()); !errors.Is(err, upgrade.ErrNotReady) {
		t.Errorf("before Ready: %v", err)
	}
	testkit.Must(t, errors.Join(u.Ready(), u.Ready()))
	if runtime.GOOS == "windows" {
		if err := u.Upgrade(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
	u.Stop()
	u.Stop()
	if err := u.Upgrade(t.Context()); !errors.Is(err, upgrade.ErrStopped) {
		t.Errorf("after Stop: %v", err)
	}
}

// A missing program is an error, and the process serves on.
func TestMissingProgramIsReported(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no upgrades")
	}
	u := newUpgrader(t, upgrade.Options{Executable: filepath.Join(t.TempDir(), "missing")})
	testkit.Must(t, u.Ready())
	for range 2 { // and the first failure does not prevent a second attempt
		if err := u.Upgrade(t.Context()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
	select {
	case <-u.Done():
		t.Error("replaced")
	default:
	}
}

// Listen rejects networks without stream sockets, and addresses in use.
func TestListenReportsErrors(t *testing.T) {
	u := newUpgrader(t, upgrade.Options{})
	if _, err := u.Listen("udp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "udp") {
		t.Errorf("got %v", err)
	}
	l, err := u.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	if _, err := u.Listen("tcp", l.Addr().String()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
	if _, err := u.Activated("web"); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("got %v", err)
	}
}

// Run serves until its context ends. It writes the PID file, and removes it unless another process
// has written it meanwhile.
func TestRunServesUntilContextEnds(t *testing.T) {
	for _, isForeign := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "pid")
		u := newUpgrader(t, upgrade.Options{PIDFile: path})
		l, err := u.Listen("tcp", "127.0.0.1:0")
		testkit.Must(t, err)
		u.Serve(&http.Server{Handler: u.Handler(http.NotFoundHandler())}, l)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- u.Run(ctx) }()
		resp, err := http.Get("http://" + l.Addr().String()) // waits in the queue until Run serves
		testkit.Must(t, err)
		resp.Body.Close()
		if b, err := os.ReadFile(path); string(b) != strconv.Itoa(os.Getpid())+"\n" {
			t.Errorf("PID file: %q, %v", b, err)
		}
		if isForeign {
			testkit.Must(t, os.WriteFile(path, []byte("1\n"), 0o600))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); isForeign != (err == nil) {
			t.Errorf("another process's file: %v; %v", isForeign, err)
		}
		http.DefaultClient.CloseIdleConnections()
	}
}

// failing is a server whose listener fails.
type failing struct{ http.Server }

var errBroken = errors.New("broken") // what its Serve returns

func (*failing) Serve(net.Listener) error { return errBroken }

func TestRunReturnsErrorOfServer(t *testing.T) {
	u := newUpgrader(t, upgrade.Options{})
	u.Serve(&failing{}, nil)
	if err := u.Run(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

// Handler passes requests on.
func TestHandlerCallsNext(t *testing.T) {
	u := newUpgrader(t, upgrade.Options{})
	w := httptest.NewRecorder()
	u.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "x")
	})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Body.String() != "x" || w.Header().Get("Connection") != "" {
		t.Errorf("%q, %v", w.Body, w.Header())
	}
}
