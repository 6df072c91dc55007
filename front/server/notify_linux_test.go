package server_test

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/upgrades"
)

// serviceManager receives states, as systemd does.
type serviceManager struct {
	*testing.T
	path   string
	socket *net.UnixConn
}

func newServiceManager(t *testing.T) *serviceManager {
	m := &serviceManager{T: t, path: filepath.Join(t.TempDir(), "notify")}
	m.socket = testkit.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}))(t)
	t.Cleanup(func() { m.socket.Close() })
	return m
}

// receive returns the states of the next message. Its STATUS is left out, because it is for people.
func (m *serviceManager) receive() (states []string) {
	m.Helper()
	b := make([]byte, 4096)
	testkit.Must(m, m.socket.SetReadDeadline(time.Now().Add(upgrades.Patience)))
	n := testkit.Value(m.socket.Read(b))(m)
	for _, state := range strings.Split(string(b[:n]), "\n") {
		if !strings.HasPrefix(state, "STATUS=") {
			states = append(states, state)
		}
	}
	return states
}

// expect requires a message with these states.
func (m *serviceManager) expect(want ...string) {
	m.Helper()
	testkit.Equal(m, m.receive(), want)
}

// expectReloading requires the message that begins a reload. Its time must be between since, when
// the reload was requested, and now: otherwise systemd takes it for that of an earlier reload.
func (m *serviceManager) expectReloading(since int64) {
	m.Helper()
	got := m.receive()
	if len(got) != 2 || got[0] != "RELOADING=1" {
		m.Fatalf("got %q, want RELOADING=1 and MONOTONIC_USEC", got)
	}
	text, ok := strings.CutPrefix(got[1], "MONOTONIC_USEC=")
	us, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || us < since || us > monotonicUs(m.T) || strconv.FormatInt(us, 10) != text {
		m.Errorf("got %q, want MONOTONIC_USEC from %d on", got[1], since)
	}
}

// monotonicUs returns the time of CLOCK_MONOTONIC, in microseconds.
func monotonicUs(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	testkit.Must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Nano() / 1000
}

// The messages are those of Type=notify-reload (sd_notify(3), systemd.service(5)): RELOADING=1 with
// MONOTONIC_USEC, then READY=1, for each reload, also if it fails or is not possible. Without them
// "systemctl reload" would wait until its timeout.
func TestServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	m := newServiceManager(t)
	s := newSite(t, time.Hour, "NOTIFY_SOCKET="+m.path)
	m.expect(fmt.Sprintf("MAINPID=%d", s.PID()), "READY=1")
	reload := func(config string) {
		t.Helper()
		s.write("nginx.conf", config)
		since := monotonicUs(t)
		s.Signal(s.PID(), syscall.SIGHUP)
		m.expectReloading(since)
		m.expect("READY=1")
	}
	reload(upgradable)
	reload("rubbish;")
	reload(strings.Replace(upgradable, "listen HOST:8000;", "listen 192.0.2.1:8000;", 1))
	reload(upgradable)
	s.write("fault", hangs)
	since := monotonicUs(t)
	s.Signal(s.PID(), syscall.SIGUSR2)
	m.expectReloading(since)
	child := s.Number("hangs")
	reload(upgradable) // fails: the new process may have read the file
	s.Signal(child, syscall.SIGKILL)
	m.expect("READY=1")
	s.AwaitLog("upgrade: failed, this process serves on", 1)
	s.write("fault", "")
	since = monotonicUs(t)
	old := s.upgrade()
	m.expectReloading(since)
	m.expect(fmt.Sprintf("MAINPID=%d", s.PID()), "READY=1")
	s.end(old)
	m.expect("STOPPING=1")
}
