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
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/printable"
)

const (
	// restOfOutput is the timeout of a command's output after the command has ended. Only processes
	// that left the command's group can still write.
	restOfOutput     = 5 * time.Second
	maxCommandOutput = 16 << 20 // limits the output of a command, in bytes
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

// Printable escapes the control characters of a program's output, except for line breaks and tabs:
// on a terminal they would act.
func Printable(output []byte) string { return printable.Text(string(output), "\n\t") }

// Printed returns, to follow an error, the last line that each process printed, and below it the
// lines before; "" without output.
func (r *Running) Printed() string {
	var last, all strings.Builder
	for _, p := range r.parts {
		line, more := quote(tail(p.log))
		if line != "" {
			fmt.Fprintf(&last, "; %s printed: %s", p.role, line)
		}
		all.WriteString(more)
	}
	return last.String() + all.String()
}

// Limits of a program's output in an error.
const (
	longestLine = 200 // characters in the first line
	shownLines  = 12  // below it
)

// quote returns the last line of a program's output, or the message of its panic, shortened. more
// is the output, below it, if that is longer.
func quote(output string) (line, more string) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	line = strings.TrimSpace(lines[len(lines)-1])
	if isPanic(lines[0]) {
		line = lines[0]
	}
	runes := []rune(line)
	if len(runes) > longestLine {
		line = string(runes[:longestLine]) + "…"
	}
	if len(lines) > 1 || len(runes) > longestLine {
		more = "\n    " + strings.Join(lines, "\n    ")
	}
	return line, more
}

func isPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// Quoted returns a program's output as it follows an error: its last line, and below it the last
// lines, if it has more.
func Quoted(output []byte) string {
	line, more := quote(lastLines(output))
	return line + more
}

// lastLines returns the last lines of an output. After a panic it returns the first lines of the
// panic, because a list of goroutines follows.
func lastLines(output []byte) string {
	lines := strings.Split(strings.TrimSpace(Printable(output)), "\n")
	from := max(0, len(lines)-shownLines)
	if i := slices.IndexFunc(lines, isPanic); i >= 0 {
		from = i
	}
	return strings.Join(lines[from:min(len(lines), from+shownLines)], "\n")
}

// tail returns the last lines of a log, or "".
func tail(f *os.File) string {
	const most = 64 << 10
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, min(most, info.Size()))
	n, _ := f.ReadAt(b, info.Size()-int64(len(b)))
	return lastLines(b[:n])
}
