package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Process is a program started by a test. It leads its own process group.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

const endTimeout = 10 * time.Second // limits how long programs may take to exit

// Start starts a program. The program is killed when the test ends, and receives SIGTERM if the
// test binary exits before that. When the program has exited, the rest of its process group is
// killed. The caller must not call c.Wait.
func Start(t testing.TB, c *exec.Cmd) *Process {
	t.Helper()
	Long(t, "it starts "+c.Path)
	ownGroup(c, syscall.SIGTERM)
	if c.WaitDelay == 0 {
		c.WaitDelay = endTimeout // a process outside the group may keep the output open
	}
	p := &Process{cmd: c, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	Must(t, <-started)
	t.Cleanup(func() {
		_ = c.Process.Kill()
		select {
		case <-p.done:
		case <-time.After(2 * endTimeout):
			t.Errorf("%s has not exited %v after SIGKILL", filepath.Base(c.Path), 2*endTimeout)
		}
	})
	return p
}

// run starts the program and waits for it on one thread. The kernel sends the death signal when the
// thread that started the program ends, and a goroutine keeps its locked thread alive.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	endGroup(p.cmd.Process.Pid)
	p.err = p.cmd.Wait()
	close(p.done)
}

// End sends SIGTERM until the program has exited. It repeats the signal because nginx without a
// master process ignores one that arrives just before it starts to wait. A program that does not
// exit in time is killed.
func (p *Process) End(t testing.TB) {
	t.Helper()
	for late := time.Now().Add(endTimeout); time.Now().Before(late); {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
			return
		case <-time.After(endTimeout / 100):
		}
	}
	t.Logf("killing %s: it has not exited %v after SIGTERM", filepath.Base(p.cmd.Path), endTimeout)
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends a signal.
func (p *Process) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	Check(t, p.cmd.Process.Signal(sig))
}

// Done returns a channel that is closed when the program has exited and its output has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done and returns the result of exec.Cmd's Wait.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}
