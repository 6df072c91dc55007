package upgrades

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
)

const maxLogged = 16 << 10 // limits how much of a server's log a failed test prints

// Patience limits how long a test waits for a response or a message of a process.
const Patience = 2 * time.Minute

// Site is a running server, whose processes replace each other. They share a folder. Its file "pid"
// holds the ID of the process that serves, and "log" what all of them report.
type Site struct {
	*testing.T
	Folder string
}

// Start starts the server's first process. The process must call ExitWithTest.
func (s *Site) Start(c *exec.Cmd) {
	s.Helper()
	testkit.Long(s, "it starts "+c.Path)
	// orphans become children of the test, which can then wait for them
	testkit.Must(s, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	lifeline := testkit.Value(c.StdinPipe())(s)
	testkit.Must(s, c.Start())
	s.Cleanup(func() {
		lifeline.Close()
		if s.Failed() {
			log := s.Read("log")
			s.Logf("end of the log:\n%s", log[max(0, len(log)-maxLogged):])
		}
	})
}

// ExitWithTest ends the calling process when the test that started it ends. The test then closes
// standard input, which all processes of a server share.
func ExitWithTest() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
}

// Announce writes a file of a server's process. Readers see nothing or all of it.
func Announce(name, text string) error {
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Path returns the path of a file in the folder.
func (s *Site) Path(name string) string { return filepath.Join(s.Folder, name) }

// Read returns the text of a file, which may not exist.
func (s *Site) Read(name string) string {
	b, _ := os.ReadFile(s.Path(name))
	return strings.TrimSpace(string(b))
}

// Write writes a file, which all users may change.
func (s *Site) Write(name, text string) {
	s.Helper()
	testkit.Must(s, os.WriteFile(s.Path(name), []byte(text), 0o666))
	testkit.Must(s, os.Chmod(s.Path(name), 0o666)) // whatever the umask is
}

// AwaitLog waits until a text is in the log n times.
func (s *Site) AwaitLog(text string, n int) {
	s.Helper()
	testkit.WaitFor(s, text, func() bool { return strings.Count(s.Read("log"), text) >= n })
}

// Await waits until a file exists and returns its text.
func (s *Site) Await(name string) (text string) {
	s.Helper()
	testkit.WaitFor(s, name, func() bool { text = s.Read(name); return text != "" })
	return text
}

// Number waits until a process ID is in a file and returns it.
func (s *Site) Number(name string) int {
	s.Helper()
	return testkit.Value(strconv.Atoi(s.Await(name)))(s)
}

// PID returns the ID of the process that serves.
func (s *Site) PID() int { s.Helper(); return s.Number("pid") }

// Signal sends a signal.
func (s *Site) Signal(pid int, sig syscall.Signal) {
	s.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		s.Fatalf("signal %v for process %d: %v", sig, pid, err)
	}
}

// Upgrade replaces the process that serves, and returns the IDs of both.
func (s *Site) Upgrade() (from, to int) {
	s.Helper()
	from = s.PID()
	s.Signal(from, syscall.SIGUSR2)
	testkit.WaitFor(s, "an upgrade", func() bool { to = s.PID(); return to != from })
	return from, to
}

// Wait waits until a process has ended, and returns its exit code; -1 after a signal.
func (s *Site) Wait(pid int) int {
	s.Helper()
	var status syscall.WaitStatus
	testkit.WaitFor(s, "the end of process "+strconv.Itoa(pid), func() bool {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		if err != nil && err != syscall.EINTR { // a bare errno
			return syscall.Kill(pid, 0) != nil // its parent, which has started it, has not exited yet
		}
		return got == pid
	})
	return status.ExitStatus()
}

// End stops the server in good order, with the processes that others have replaced.
func (s *Site) End(replaced ...int) {
	s.Helper()
	for _, pid := range replaced {
		testkit.Equal(s, s.Wait(pid), 0, "a replaced process: exit code")
	}
	pid := s.PID()
	s.Signal(pid, syscall.SIGTERM)
	testkit.Equal(s, s.Wait(pid), 0, "exit code")
	testkit.Equal(s, s.Read("pid"), "", "the PID file at the end")
}
