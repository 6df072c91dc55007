package contender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// restOfOutput is the timeout of a command's output after the command has ended. Only processes
	// that left the command's group can still write.
	restOfOutput = 5 * time.Second
	// maxCommandOutput limits the output of a command, in bytes.
	maxCommandOutput = 16 << 20
)

// Command runs programs that end by themselves.
type Command struct {
	Dir   string
	Env   []string      // more variables
	CPUs  []int         // nil is all
	Limit time.Duration // timeout; 0 is no limit
	Used  time.Duration // CPU time of the last program that succeeded
}

// Run runs a program and returns its output. It leaves no child of the program. When ctx ends, it
// kills all of them, and if this process is killed, the kernel kills the program. The first line of
// the error has the last line of the output.
func (c *Command) Run(ctx context.Context, name string, args ...string) (output []byte, err error) {
	runtime.LockOSThread() // the kernel sends the death signal when the thread that started the program ends
	defer runtime.UnlockOSThread()
	if c.CPUs != nil { // the program inherits those of the thread
		restore, bindErr := bindThread(c.CPUs)
		if bindErr != nil {
			return nil, bindErr
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if c.Limit > 0 {
		limited, cancel = context.WithTimeout(ctx, c.Limit)
	}
	defer cancel()
	var out limitedBuffer
	x := exec.CommandContext(limited, name, args...)
	x.Dir, x.Env = c.Dir, slices.Concat(os.Environ(), c.Env)
	x.Stdout, x.Stderr = &out, &out
	x.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err = runGroup(x)
	switch {
	case ctx.Err() != nil:
		return out.kept.Bytes(), ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("it has not ended after %v", c.Limit)
	case out.isFull:
		err = fmt.Errorf("its output has more than %d MB", maxCommandOutput>>20)
	case err == nil:
		c.Used = x.ProcessState.UserTime() + x.ProcessState.SystemTime()
	}
	if text := Quoted(out.kept.Bytes()); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return out.kept.Bytes(), err
}

// runGroup runs a command in a process group of its own, and ends the group with the command.
func runGroup(c *exec.Cmd) error {
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = restOfOutput
	if err := c.Start(); err != nil {
		return err
	}
	// The command stays a zombie until Wait, so no other group has its ID.
	for errors.Is(unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	return c.Wait()
}

// limitedBuffer is a buffer with room for maxCommandOutput. Beyond that, writes fail, and the
// program that writes to the pipe receives SIGPIPE.
type limitedBuffer struct {
	kept   bytes.Buffer
	isFull bool
}

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.kept.Len()+len(p) > maxCommandOutput {
		b.isFull = true
		return 0, io.ErrShortWrite
	}
	return b.kept.Write(p)
}
