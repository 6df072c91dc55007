package contender

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tarehq/tare/internal/lab/proc"
)

// Kinds of wards: what the guard ends, removes or undoes. A line that the guard reads has a kind and
// a name. It registers a ward, or withdraws it if it begins with a minus sign. The guard's input ends
// when the guarded process has died. Then the guard takes care of what is still registered, in this
// order.
const (
	guardGroup  = "group"  // a process group
	guardMark   = "mark"   // an environment variable of processes, whatever their group
	guardNice   = "nice"   // a session's file autogroup, whose nice value was 0
	guardFolder = "folder" // a folder
)

// Guard is the body of the guard process. It returns when in ends. It ignores errors: no process is
// left to report them to.
func Guard(in io.Reader) {
	wards := make(map[[2]string]bool) // by kind and name
	for lines := bufio.NewScanner(in); lines.Scan(); {
		kind, name, _ := strings.Cut(lines.Text(), " ")
		if kind, isOver := strings.CutPrefix(kind, "-"); isOver {
			delete(wards, [2]string{kind, name})
		} else {
			wards[[2]string{kind, name}] = true
		}
	}
	for _, kind := range []string{guardGroup, guardMark, guardNice, guardFolder} {
		for ward := range wards {
			if ward[0] == kind {
				endWard(kind, ward[1])
			}
		}
	}
}

func endWard(kind, name string) {
	switch kind {
	case guardGroup:
		group, err := strconv.Atoi(name)
		if err != nil || group <= 1 {
			return
		}
		family, _ := proc.Family(group)
		_ = syscall.Kill(-group, syscall.SIGKILL)
		for _, p := range family {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	case guardMark:
		endMarked(name)
	case guardNice:
		if f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
			_, _ = f.WriteString("0")
			_ = f.Close()
		}
	case guardFolder:
		_ = os.RemoveAll(name)
	}
}

// endMarked kills all processes with a mark in their environment. It finds processes that left their
// group and whose parents have died.
func endMarked(mark string) {
	const rounds = 5 // processes may start others meanwhile
	for range rounds {
		all, _ := proc.All()
		marked := slices.DeleteFunc(all, func(p proc.Process) bool {
			return p.Zombie || p.PID == os.Getpid() || !p.HasEnv(mark)
		})
		if len(marked) == 0 {
			return
		}
		for _, p := range marked {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
}

// guard is the guarded process's side of a guard process.
type guard struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// startGuard starts the guard in a session of its own, where ^C does not reach it. Unlike other
// children it has no death signal.
func startGuard(command []string) (*guard, error) {
	c := exec.Command(command[0], command[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("contender: guard: %w", err)
	}
	return &guard{c, in}, nil
}

// send writes a line to the guard. It ignores errors: a dead guard does harm only if this process
// is killed, too.
func (g *guard) send(kind string, name any) {
	if g != nil {
		fmt.Fprintln(g.in, kind, name)
	}
}

func (g *guard) close() error {
	_ = g.in.Close()
	return g.cmd.Wait()
}
