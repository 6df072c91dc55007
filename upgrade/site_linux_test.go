package upgrade_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience limits how long a test waits for a process.
const patience = 2 * time.Minute

// site is a running server, whose processes replace each other.
type site struct {
	*testing.T
	settings
}

// start starts the server's first process. environment has further variables.
func start(t *testing.T, s settings, environment ...string) *site {
	t.Helper()
	return activate(t, s, nil, environment...)
}

// activate starts the server's first process with sockets, as a service manager does.
func activate(t *testing.T, s settings, sockets []*os.File, environment ...string) *site {
	t.Helper()
	// orphans become children of the test, which can then wait for them
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if s.Folder == "" {
		s.Folder = t.TempDir()
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	if sockets != nil {
		c = exec.Command("sh", "-c", "LISTEN_PID=$$ exec "+os.Args[0])
		c.ExtraFiles = sockets
		environment = append(environment, "LISTEN_FDS="+strconv.Itoa(len(sockets)))
	}
	c.Env = append(os.Environ(), settingsVariable+"="+string(text))
	c.Env = append(c.Env, environment...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	lifeline, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lifeline.Close() })
	site := &site{t, s}
	site.waitFor("pid")
	return site
}

// eventually waits until a condition holds.
func (s *site) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%s: not after %v; log:\n%s", what, patience, s.read("log"))
		}
	}
}

// waitFor waits until a file exists and returns its text.
func (s *site) waitFor(name string) string {
	s.Helper()
	s.eventually(name, func() bool { return s.read(name) != "" })
	return s.read(name)
}

// read returns the text of a file, which may not exist.
func (s *site) read(name string) string {
	b, _ := os.ReadFile(s.path(name))
	return strings.TrimSpace(string(b))
}

// write makes a file.
func (s *site) write(name, text string) {
	s.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// number returns the process ID in a file.
func (s *site) number(name string) int {
	s.Helper()
	pid, err := strconv.Atoi(s.waitFor(name))
	if err != nil {
		s.Fatal(err)
	}
	return pid
}

// pid returns the process that serves.
func (s *site) pid() int { s.Helper(); return s.number("pid") }

// signal sends a signal.
func (s *site) signal(pid int, sig syscall.Signal) {
	s.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		s.Fatalf("signal %v for process %d: %v; log:\n%s", sig, pid, err, s.read("log"))
	}
}

// upgrade replaces the process that serves, and returns both.
func (s *site) upgrade() (from, to int) {
	s.Helper()
	from = s.pid()
	s.signal(from, syscall.SIGUSR2)
	s.eventually("an upgrade", func() bool { to = s.pid(); return to != from })
	return from, to
}

// wait waits until a process has ended, and returns its exit code; -1 after a signal.
func (s *site) wait(pid int) int {
	s.Helper()
	var status syscall.WaitStatus
	s.eventually("the end of process "+strconv.Itoa(pid), func() bool {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		if err != nil && err != syscall.EINTR { // a bare errno
			// its parent, which has started it, has not exited yet
			return syscall.Kill(pid, 0) != nil
		}
		return got == pid
	})
	return status.ExitStatus()
}

// end stops the server in good order.
func (s *site) end() {
	s.Helper()
	pid := s.pid()
	s.signal(pid, syscall.SIGTERM)
	if code := s.wait(pid); code != 0 {
		s.Errorf("exit code %d; log:\n%s", code, s.read("log"))
	}
	if got := s.read("pid"); got != "" {
		s.Errorf("the PID file was not removed: %s", got)
	}
}

// responsePID returns a response's process ID after its body has been compared.
func responsePID(pid string, body io.Reader, want string) (int, error) {
	b, err := io.ReadAll(body)
	if err == nil && string(b) != want {
		err = fmt.Errorf("got %q, want %q", b, want)
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(pid)
}
