package testkit

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Process is a program that a test started. It leads a process group of its own.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// endsWithin is how long programs may take to end.
const endTimeout = 10 * time.Second

// Start starts a program. It is killed when the test ends, and receives SIGTERM when the test
// binary ends without that. The rest of its process group is killed when the program has ended. The
// caller must not call c.Wait.
func Start(t testing.TB, c *exec.Cmd) *Process {
	t.Helper()
	ownGroup(c, syscall.SIGTERM)
	if c.WaitDelay == 0 {
		c.WaitDelay = endTimeout // a process outside the group may have the output open
	}
	p := &Process{cmd: c, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		select {
		case <-p.done:
		case <-time.After(2 * endTimeout):
			t.Errorf("%s has not ended %v after it was killed", filepath.Base(c.Path), 2*endTimeout)
		}
	})
	return p
}

// run starts the program and waits for its end, on one thread: the kernel sends the death signal
// when the thread ends that started the program, and a thread ends with a goroutine that is locked
// to it.
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

// End asks the program to end, by SIGTERM, and waits until it has. It asks more than once: nginx
// without a master ignores a signal that comes just before it begins to wait. A program that does
// not end in time is killed.
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
	t.Logf("%s is killed: it has not ended %v after SIGTERM", filepath.Base(p.cmd.Path), endTimeout)
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Done is closed when the program has ended and its output has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for that and returns what exec.Cmd's Wait does.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}
