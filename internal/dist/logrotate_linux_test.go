package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// rotated is a server with logs that logrotate rotates by the package's file.
type rotated struct {
	t       *testing.T
	dir     string
	process *testkit.Process
	client  *http.Client
}

// newRotated starts a server as the unit's user. The folder of its logs belongs to that user.
func newRotated(t *testing.T) *rotated {
	t.Helper()
	r := &rotated{t: t, dir: t.TempDir()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chmod(filepath.Dir(r.dir), 0o755))
	for _, name := range []string{"log", "bin"} {
		must(os.Mkdir(r.path(name), 0o755))
	}
	if out, err := testkit.Command(t, "chown", "www-data:www-data", r.path("log")).CombinedOutput(); err != nil {
		skipMissing(t, "chown: "+string(out))
	}
	conf := strings.ReplaceAll(`pid DIR/pid;
user www-data;
error_log DIR/log/error.log;
events {}
http { access_log DIR/log/access.log; server { listen unix:DIR/log/socket; return 200; } }
`, "DIR", r.dir)
	must(os.WriteFile(r.path("nginx.conf"), []byte(conf), 0o644))
	rotation := strings.NewReplacer("/var/log/tare", r.path("log"), "/run/systemd/system", r.dir).
		Replace(string(packagedFile("tare.logrotate")))
	must(os.WriteFile(r.path("rotation"), []byte(rotation), 0o644))
	manager := fmt.Sprintf("#!/bin/sh\ntest \"$*\" = 'kill -s USR1 --kill-whom=main tare.service' || exit 1\n"+
		"exec kill -s USR1 \"$(cat %s)\"\n", r.path("pid"))
	must(os.WriteFile(r.path("bin/systemctl"), []byte(manager), 0o755))
	c := exec.Command(filepath.Join(linkedProgram(t), productName), "serve", "-c", r.path("nginx.conf"))
	c.Stderr = new(bytes.Buffer)
	r.process = testkit.Start(t, c)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", r.path("log/socket"))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = &http.Client{Transport: transport, Timeout: time.Minute}
	r.eventually("the server's PID file", func() bool {
		info, err := os.Stat(r.path("pid"))
		return err == nil && info.Size() > 0
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", c.Stderr)
		}
	})
	return r
}

func (r *rotated) path(name string) string { return filepath.Join(r.dir, name) }

// eventually waits until a condition is true, for a minute at most.
func (r *rotated) eventually(what string, isTrue func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !isTrue(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("no %s", what)
		}
	}
}

// rotate runs logrotate, which rotates although no day has passed.
func (r *rotated) rotate(program string, env []string) {
	r.t.Helper()
	c := testkit.Command(r.t, program, "-f", "-s", r.path("state"), r.path("rotation"))
	c.Env = append(append(os.Environ(), env...), "PATH="+r.path("bin")+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil || len(out) != 0 {
		r.t.Fatalf("logrotate: %v: %s", err, out)
	}
}

// lines returns the lines of the access log and its rotated files, some of which are compressed.
func (r *rotated) lines() (text string, files int) {
	r.t.Helper()
	names, err := filepath.Glob(r.path("log/access.log*"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil && strings.HasSuffix(name, ".gz") {
			var unzipped *gzip.Reader
			if unzipped, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
				b, err = io.ReadAll(unzipped)
			}
		}
		if err != nil {
			r.t.Fatal(err)
		}
		text += string(b)
	}
	return text, len(names)
}

// logrotate rotates the log by the package's file while requests arrive: the server continues in
// the new file, and each request has one line, also in compressed files.
func TestLogrotateLosesNoLine(t *testing.T) {
	program, env := programs.Logrotate(t)
	if os.Geteuid() != 0 {
		skipMissing(t, "the server becomes another user, which needs root")
	}
	r := newRotated(t)
	stop, requested := make(chan struct{}), 0
	var clients sync.WaitGroup
	clients.Go(func() {
		for ; ; requested++ {
			select {
			case <-stop:
				return
			default:
			}
			resp, err := r.client.Get(fmt.Sprintf("http://any/?request=%d.", requested))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		}
	})
	const rotations = 3
	for range rotations {
		hasLines := func() bool {
			info, err := os.Stat(r.path("log/access.log"))
			return err == nil && info.Size() > 0
		}
		r.eventually("line in the new log", hasLines)
		r.rotate(program, env)
	}
	close(stop)
	clients.Wait()
	pid := readPID(t, r.path("pid"))
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := r.process.Wait(); err != nil {
		t.Error(err)
	}
	text, files := r.lines()
	if files != rotations+1 {
		t.Errorf("%d files, want %d", files, rotations+1)
	}
	for i := range requested {
		if n := strings.Count(text, fmt.Sprintf("/?request=%d. HTTP/1.1\" 200 ", i)); n != 1 {
			t.Fatalf("request %d of %d has %d lines", i, requested, n)
		}
	}
}

func readPID(t *testing.T, path string) (pid int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Sscan(string(b), &pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
