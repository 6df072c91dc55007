//go:build unix

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/upgrade"
)

// A Run that is stopped while it starts serves nothing: the process that it replaces would end,
// too. That is no error. Run does not wait for the writer of a configuration that is a named pipe,
// nor for the reader of a PID file that is one, and after a second signal neither for
// Options.Prepare nor for a reload. It leaves no file.
func TestStoppedRunEnds(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	for _, during := range []string{"error", "pipe", "pipe, Drain", "PID", "Handler", "Prepare", "Prepare, aborted",
		"reload, aborted"} {
		dir, log, want := testkit.ShortDir(t), new(testkit.Log), error(nil)
		path := filepath.Join(dir, "nginx.conf")
		configure := func(log, other string) {
			testkit.WriteFile(t, path, fmt.Sprintf("pid %[1]s/pid; events {} http { access_log %[1]s/%[2]s; "+
				"server { listen unix:%[1]s/s; listen unix:%[1]s/%[3]s; } }", dir, log, other))
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		s := New(File{Path: path}, Options{Stdout: log, Stderr: log, NoSignals: true})
		aborted, abort := context.WithCancel(t.Context())
		defer abort()
		s.aborted = aborted
		if strings.HasPrefix(during, "pipe") {
			testkit.Must(t, syscall.Mkfifo(path, 0o600))
		} else {
			configure("first.log", "t")
		}
		switch during {
		case "error":
			taken := testkit.Value(net.Listen("unix", dir+"/taken"))(t)
			defer taken.Close()
			configure("first.log", "taken")
			want = listen.ErrInUse
		case "pipe":
			end()
		case "pipe, Drain":
			s.Drain()
		case "PID":
			testkit.Must(t, syscall.Mkfifo(dir+"/pid", 0o600))
			s.options.Ready = end
		case "Handler":
			s.source = &Config{Front: conf.Config{Hosts: []conf.Host{{Listen: []conf.Listen{{Addr: "unix:" + dir + "/s"}}}}},
				Handler: func() (http.Handler, error) { end(); return http.NotFoundHandler(), nil }}
		case "Prepare":
			s.options.Prepare = func(ctx context.Context) error { end(); return ctx.Err() }
		case "Prepare, aborted":
			s.options.Prepare = func(context.Context) error { end(); abort(); <-never; return nil }
		case "reload, aborted":
			s.options.Ready = func() {
				s.options.Ready = nil // Reload calls it, too
				configure("second.log", "t")
				s.logs.mu.Lock() // so that opening the log waits
				defer s.logs.mu.Unlock()
				abort()
				testkit.Is(t, s.Reload(), errStopped)
				end()
			}
		}
		if err := s.Run(ctx); during != "reload, aborted" || !errors.Is(err, ErrAborted) {
			testkit.Is(t, err, want, during)
		}
		testkit.Equal(t, strings.Contains(log.String(), "serving"), during == "PID" || during == "reload, aborted", log.String())
		for _, name := range []string{"pid", "s"} {
			testkit.Fails(os.Lstat(filepath.Join(dir, name)))(t, "no such file", during)
		}
		if writer, err := os.OpenFile(path, os.O_RDWR, 0); err == nil { // ends the wait for it
			writer.Close()
		}
	}
}

// A reload that begins just before an upgrade is rejected, as during the upgrade.
func TestReloadAndUpgradeExcludeEachOther(t *testing.T) {
	dir, log := testkit.ShortDir(t), new(testkit.Log)
	testkit.Must(t, os.WriteFile(dir+"/program", []byte("#!/bin/sh\nexec sleep 60\n"), 0o700))
	host := conf.Host{Listen: []conf.Listen{{Addr: "unix:" + dir + "/s"}}}
	ready := make(chan struct{}, 2)
	s := New(&Config{Front: conf.Config{Hosts: []conf.Host{host}}}, Options{Stdout: log, Stderr: log, NoSignals: true,
		Ready: func() { ready <- struct{}{} }, Upgrade: &upgrade.Options{Executable: dir + "/program"}})
	testkit.Run(t, s.Run, ready)
	ctx, cancel := context.WithCancel(t.Context())
	upgraded := make(chan error, 1)
	s.options.Reloading = func() {
		go func() { upgraded <- s.Upgrade(ctx) }()
		testkit.WaitFor(t, "the new process", func() bool { return strings.Contains(log.String(), "starting") })
	}
	testkit.Is(t, s.Reload(), upgrade.ErrInProgress)
	cancel()
	testkit.Is(t, <-upgraded, context.Canceled)
}
