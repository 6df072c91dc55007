package server_test

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// A reload applies the settings of sockets and of the process. It reports those that only a start
// applies.
func TestReloadAppliesOrReportsSettings(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	raw, err := l.(*net.TCPListener).SyscallConn()
	testkit.Must(t, err)
	sockets := func() (backlog, reusePort int) {
		err := raw.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if err != nil {
				t.Error(err)
				return
			}
			backlog = int(info.Sacked) // of a listening socket
			if reusePort, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Error(err)
		}
		return backlog, reusePort
	}
	usualBacklog, _ := sockets()
	usualProcs := runtime.GOMAXPROCS(0)
	path, log := filepath.Join(t.TempDir(), "nginx.conf"), new(testkit.Log)
	configure := func(main, parameters string) {
		text := main + " events {} http { access_log off; server { listen ADDR " + parameters + "; } }"
		testkit.Must(t, os.WriteFile(path, []byte(strings.Replace(text, "ADDR", l.Addr().String(), 1)), 0o600))
	}
	configure("", "")
	s, ended := run(t, path, server.Options{Stdout: log, Stderr: log, Listeners: []net.Listener{l}})
	for _, c := range []struct {
		main, parameters          string
		backlog, reusePort, procs int
	}{
		{"worker_processes 1;", "backlog=7 reuseport", 7, 1, 1},
		{"worker_processes 2;", "backlog=9", 9, 0, 2},
		{"worker_processes auto;", "", usualBacklog, 0, usualProcs},
		{"user nosuch;", "", usualBacklog, 0, usualProcs},
	} {
		configure(c.main, c.parameters)
		testkit.Must(t, s.Reload())
		backlog, reusePort := sockets()
		if procs := runtime.GOMAXPROCS(0); backlog != c.backlog || reusePort != c.reusePort || procs != c.procs {
			t.Errorf("%s listen %s: backlog %d, SO_REUSEPORT %d, %d processors; want %d, %d, %d", c.main, c.parameters,
				backlog, reusePort, procs, c.backlog, c.reusePort, c.procs)
		}
	}
	s.Drain()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	const want = "warning: user: the change requires a restart"
	if got := log.String(); strings.Count(got, "requires a restart") != 1 || !strings.Contains(got, want) {
		t.Errorf("log:\n%s\nwant once %q", got, want)
	}
}
