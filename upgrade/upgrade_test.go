package upgrade_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/upgrade"
)

func newUpgrader(t *testing.T, o upgrade.Options) *upgrade.Upgrader {
	t.Helper()
	return testkit.Value(upgrade.New(o))(t)
}

// Upgrade fails before the process is ready, after Stop, and on systems that cannot pass sockets.
func TestUpgradeReportsStates(t *testing.T) {
	u := newUpgrader(t, upgrade.Options{})
	testkit.Is(t, u.Upgrade(t.Context()), upgrade.ErrNotReady)
	testkit.Must(t, errors.Join(u.Ready(), u.Ready()))
	if runtime.GOOS == "windows" {
		testkit.Is(t, u.Upgrade(t.Context()), errors.ErrUnsupported)
	}
	u.Stop()
	u.Stop()
	testkit.Is(t, u.Upgrade(t.Context()), upgrade.ErrStopped)
}

// A missing program is an error, and the process serves on.
func TestMissingProgramIsReported(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no upgrades")
	}
	u := newUpgrader(t, upgrade.Options{Executable: filepath.Join(t.TempDir(), "missing")})
	testkit.Must(t, u.Ready())
	for range 2 { // and the first failure does not prevent a second attempt
		testkit.Is(t, u.Upgrade(t.Context()), os.ErrNotExist)
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
	testkit.Fails(u.Listen("udp", "127.0.0.1:0"))(t, "udp")
	l := testkit.Value(u.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	testkit.Fails(u.Listen("tcp", l.Addr().String()))(t, "in use")
	testkit.Fails(u.Activated("web"))(t, "no socket")
}

// Run serves until its context ends. It writes the PID file, and removes it unless another process
// has written it meanwhile.
func TestRunServesUntilContextEnds(t *testing.T) {
	for _, isForeign := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "pid")
		u := newUpgrader(t, upgrade.Options{PIDFile: path})
		l := testkit.Value(u.Listen("tcp", "127.0.0.1:0"))(t)
		u.Serve(&http.Server{Handler: u.Handler(http.NotFoundHandler())}, l)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- u.Run(ctx) }()
		resp, err := http.Get("http://" + l.Addr().String()) // waits in the queue until Run serves
		testkit.Must(t, err)
		resp.Body.Close()
		testkit.Equal(t, string(testkit.Value(os.ReadFile(path))(t)), strconv.Itoa(os.Getpid())+"\n", "PID file")
		if isForeign {
			testkit.Must(t, os.WriteFile(path, []byte("1\n"), 0o600))
		}
		cancel()
		testkit.Check(t, <-done)
		_, err = os.Stat(path)
		testkit.Equal(t, err == nil, isForeign, "another process's file stays")
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
	testkit.Is(t, u.Run(t.Context()), errBroken)
}
