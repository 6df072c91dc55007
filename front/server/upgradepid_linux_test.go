package server_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// A process that is stopped while it starts does not take over: the old one would end, and so would
// the new one.
func TestStoppedProcessDoesNotServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	config := &server.Config{Handler: func() (http.Handler, error) { cancel(); return http.NotFoundHandler(), nil }}
	config.Front.Hosts = []conf.Host{{Listen: []conf.Listen{{Addr: l.Addr().String()}}}}
	var log bytes.Buffer
	err = server.Run(ctx, config, server.Options{Stdout: &log, Stderr: &log, NoSignals: true,
		Listeners: []net.Listener{l}})
	if err != nil || strings.Contains(log.String(), "serving") {
		t.Errorf("%v\n%s", err, &log)
	}
}

// If the new process has another PID file, that of the old one is removed.
func TestUpgradeRemovesOldPIDFile(t *testing.T) {
	s := newSite(t, time.Hour)
	old := s.PID()
	s.write("nginx.conf", strings.Replace(upgradable, "DIR/pid", "DIR/other", 1))
	s.Signal(old, syscall.SIGUSR2)
	s.Wait(old)
	if text := s.Read("pid"); text != "" {
		t.Errorf("the old file is left: %s", text)
	}
	next := s.Number("other")
	s.Signal(next, syscall.SIGTERM)
	if code := s.Wait(next); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A PID file that cannot be replaced is an error before the new process takes over.
func TestPIDFileThatCannotBeReplaced(t *testing.T) {
	s := newSite(t, time.Hour)
	obstacle := filepath.Join(s.Path("pid.new"), "file")
	testkit.Must(t, os.MkdirAll(obstacle, 0o777))
	pid := s.PID()
	s.Signal(pid, syscall.SIGUSR2)
	s.AwaitLog("upgrade: failed, this", 1)
	if _, err := os.Lstat(s.Path("pid.oldbin")); err == nil || s.PID() != pid {
		t.Errorf("pid.oldbin is left, or process %d serves instead of %d", s.PID(), pid)
	}
	testkit.Must(t, os.RemoveAll(s.Path("pid.new")))
	s.end(s.upgrade())
}

// A reload while a new process starts is rejected, because that process may have read the old
// configuration. It succeeds later.
func TestReloadDuringUpgradeIsRejected(t *testing.T) {
	s := newSite(t, time.Hour)
	s.write("fault", hangs)
	pid := s.PID()
	s.Signal(pid, syscall.SIGUSR2)
	child := s.Number("hangs")
	s.Signal(pid, syscall.SIGHUP)
	s.AwaitLog("reload: failed: an upgrade is in progress", 1)
	s.Signal(pid, syscall.SIGUSR2)
	s.AwaitLog("another upgrade is in progress", 1)
	s.Signal(child, syscall.SIGKILL)
	s.AwaitLog("ended before it was ready", 1)
	s.Signal(pid, syscall.SIGHUP)
	s.AwaitLog("new configuration active", 1)
	s.end()
}
