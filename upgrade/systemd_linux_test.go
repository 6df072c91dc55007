package upgrade_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/upgrades"
)

// manager is a service manager's socket, as sd_notify(3) describes it.
type manager struct {
	*testing.T
	path     string
	socket   *net.UnixConn
	messages []string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{T: t, path: filepath.Join(t.TempDir(), "notify")}
	m.socket = testkit.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}))(t)
	t.Cleanup(func() { m.socket.Close() })
	return m
}

// until receives messages until one has all of the lines, and returns it.
func (m *manager) until(lines ...string) string {
	m.Helper()
	b := make([]byte, 4096)
	for {
		testkit.Must(m, m.socket.SetReadDeadline(time.Now().Add(upgrades.Patience)))
		n, err := m.socket.Read(b)
		if err != nil {
			m.Fatalf("no message with %q: %v; all: %q", lines, err, m.messages)
		}
		message := string(b[:n])
		m.messages = append(m.messages, message)
		all := strings.Split(message, "\n")
		isMissing := func(line string) bool { return !slices.Contains(all, line) }
		if !slices.ContainsFunc(lines, isMissing) {
			return message
		}
	}
}

// The service manager learns of readiness, upgrades, their failures, and the end. Each process that
// is the main process sends the watchdog's messages.
func TestServiceManagerIsNotified(t *testing.T) {
	m := newManager(t)
	s := start(t, settings{Grace: time.Hour}, "NOTIFY_SOCKET="+m.path, "WATCHDOG_USEC=20000")
	first := s.PID()
	m.until("READY=1", fmt.Sprint("MAINPID=", first))
	m.until("WATCHDOG=1")
	s.Write("fault", exitsAtOnce)
	s.Signal(first, syscall.SIGUSR2)
	reloading := m.until("RELOADING=1")
	if !strings.Contains(reloading, "\nMONOTONIC_USEC=") || strings.Contains(reloading, "USEC=0") {
		t.Errorf("got %q", reloading)
	}
	failed := m.until("READY=1")
	testkit.Contains(t, failed, "exit status 7")
	testkit.Equal(t, strings.Contains(failed, "MAINPID"), false, failed)
	testkit.Must(t, os.Remove(s.Path("fault")))
	_, second := s.Upgrade()
	m.until("READY=1", fmt.Sprint("MAINPID=", second))
	s.Wait(first)
	m.messages = nil
	m.until("WATCHDOG=1") // only the second process is left
	m.until("WATCHDOG=1")
	for _, message := range m.messages {
		testkit.Equal(t, strings.Contains(message, "STOPPING"), false, "a replaced process reports", message)
	}
	s.Signal(second, syscall.SIGTERM)
	m.until("STOPPING=1")
	s.Wait(second)
}

// Sockets of socket units are served by each process, and their files stay.
func TestActivatedSocketsAreHandedOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web")
	l := testkit.Value(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	defer l.Close()
	file := testkit.Value(l.File())(t)
	defer file.Close()
	s := activate(t, settings{Grace: time.Hour, Name: "web"}, []*os.File{file}, "LISTEN_FDNAMES=web")
	load := s.Load()
	load.Add(&upgrades.RawClient{Network: "unix", Address: path}, "/?", "")
	for range 3 {
		load.More(10)
		from, _ := s.Upgrade()
		testkit.Equal(t, s.Wait(from), 0, "exit code")
	}
	load.More(10)
	load.Finish()
	s.End()
	testkit.Value(os.Stat(path))(t) // the unit's
}
