package programs

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// listensWithin is how long a program may take until it listens.
const listensWithin = time.Minute

// endsWithin is how long it may take to end, before it is killed.
const endsWithin = 10 * time.Second

// Start runs a program until the test ends, and returns once it listens on an address. What it printed
// is shown if the test fails.
func Start(t testing.TB, network, address string, env []string, path string, args ...string) {
	t.Helper()
	c := exec.Command(path, args...)
	c.Env = slices.Concat(os.Environ(), env)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started, stop, exited := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the kernel ends the program with this thread
		started <- c.Start()
		<-stop
	}()
	if err := <-started; err != nil {
		close(stop)
		t.Fatal(err)
	}
	go func() {
		_ = c.Wait() // how it ended does not matter: a signal is sent to it
		close(exited)
	}()
	t.Cleanup(func() {
		end(c.Process, exited)
		close(stop)
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(path), &out)
		}
	})
	awaitListener(t, network, address, filepath.Base(path), exited)
}

// end has a program end. It is told more than once: nginx without a master takes no notice of a signal that comes just before it begins
// to wait.
func end(p *os.Process, exited <-chan struct{}) {
	for late := time.Now().Add(endsWithin); ; {
		_ = p.Signal(syscall.SIGTERM)
		select {
		case <-exited:
			return
		case <-time.After(endsWithin / 100):
		}
		if time.Now().After(late) {
			_ = p.Kill()
			<-exited
			return
		}
	}
}

// awaitListener returns once somebody listens on an address.
func awaitListener(t testing.TB, network, address, name string, exited <-chan struct{}) {
	t.Helper()
	for late := time.Now().Add(listensWithin); ; time.Sleep(5 * time.Millisecond) {
		select {
		case <-exited:
			t.Fatalf("%s has ended", name)
		default:
		}
		if nc, err := net.Dial(network, address); err == nil {
			nc.Close()
			return
		} else if time.Now().After(late) {
			t.Fatalf("%s does not listen after %v: %v", name, listensWithin, err)
		}
	}
}
