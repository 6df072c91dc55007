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

	"github.com/tarehq/tare/lab/proc"
)

// The guard is told, a line each, which process groups run and which folders exist.
// When its input ends before they are taken back, the process that it guards has
// died, and the guard ends and removes them.
const (
	guardWatch  = "watch"  // a process group
	guardForget = "forget" // one that has ended
	guardRemove = "remove" // a folder
	guardMark   = "mark"   // a variable in the environment of all that runs, groups of its own included
)

// Guard is the body of the guard process. It returns when in ends.
func Guard(in io.Reader) {
	groups := make(map[int]bool)
	var folders, marks []string
	for lines := bufio.NewScanner(in); lines.Scan(); {
		verb, what, _ := strings.Cut(lines.Text(), " ")
		group, err := strconv.Atoi(what)
		switch {
		case verb == guardRemove:
			folders = append(folders, what)
		case verb == guardMark:
			marks = append(marks, what)
		case err != nil || group <= 1:
		case verb == guardWatch:
			groups[group] = true
		case verb == guardForget:
			delete(groups, group)
		}
	}
	for group := range groups {
		family, _ := proc.Family(group)
		_ = syscall.Kill(-group, syscall.SIGKILL)
		for _, p := range family {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	endMarked(marks)
	for _, f := range folders {
		_ = os.RemoveAll(f)
	}
}

// endMarked ends all processes that were started with one of the variables in their
// environment: those that left their group, and whose parents have died.
func endMarked(marks []string) {
	const rounds = 5 // each may find what was started meanwhile
	for range rounds {
		all, _ := proc.All()
		marked := slices.DeleteFunc(all, func(p proc.Process) bool {
			return p.Zombie || p.PID == os.Getpid() || !slices.ContainsFunc(marks, p.HasEnv)
		})
		if len(marked) == 0 {
			return
		}
		for _, p := range marked {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
}

// guard is this side of a guard process.
type guard struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// startGuard starts the guard in a session of its own, where ^C does not reach it,
// and without the death signal that other children get.
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

// tell is best effort: a guard that has died guards nothing, which harms nobody
// unless this process dies, too.
func (g *guard) tell(verb string, what any) {
	if g != nil {
		fmt.Fprintln(g.in, verb, what)
	}
}

func (g *guard) close() error {
	_ = g.in.Close()
	return g.cmd.Wait()
}
