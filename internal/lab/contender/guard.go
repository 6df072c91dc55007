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

// Verbs of the lines that the guard reads. They register process groups, folders, marks and
// priorities, or withdraw them. The guard's input ends when the guarded process has died. Then the
// guard kills, removes and undoes what is still registered.
const (
	guardWatch  = "watch"  // a process group
	guardForget = "forget" // a process group that has ended
	guardRemove = "remove" // a folder
	guardMark   = "mark"   // an environment variable of processes, whatever their group
	guardNice   = "nice"   // a session's file autogroup, whose nice value was 0
	guardUnnice = "unnice" // such a file whose value was restored
)

// Guard is the body of the guard process. It returns when in ends.
func Guard(in io.Reader) {
	w := wards{groups: make(map[int]bool), sessions: make(map[string]bool)}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		verb, what, _ := strings.Cut(lines.Text(), " ")
		w.register(verb, what)
	}
	w.end()
}

// wards are what a guard ends, removes and undoes.
type wards struct {
	groups         map[int]bool
	folders, marks []string
	sessions       map[string]bool // files autogroup
}

// register handles one line. It ignores lines that it cannot parse.
func (w *wards) register(verb, what string) {
	group, groupErr := strconv.Atoi(what)
	switch {
	case verb == guardRemove:
		w.folders = append(w.folders, what)
	case verb == guardMark:
		w.marks = append(w.marks, what)
	case verb == guardNice:
		w.sessions[what] = true
	case verb == guardUnnice:
		delete(w.sessions, what)
	case groupErr != nil || group <= 1:
	case verb == guardWatch:
		w.groups[group] = true
	case verb == guardForget:
		delete(w.groups, group)
	}
}

// end kills, removes and undoes everything registered. It ignores errors: no process is left to
// report them to.
func (w *wards) end() {
	for group := range w.groups {
		family, _ := proc.Family(group)
		_ = syscall.Kill(-group, syscall.SIGKILL)
		for _, p := range family {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	endMarked(w.marks)
	for file := range w.sessions {
		if f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
			_, _ = f.WriteString("0")
			_ = f.Close()
		}
	}
	for _, f := range w.folders {
		_ = os.RemoveAll(f)
	}
}

// endMarked kills all processes with one of the marks in their environment. It finds processes that
// left their group and whose parents have died.
func endMarked(marks []string) {
	const rounds = 5 // processes may start others meanwhile
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
func (g *guard) send(verb string, what any) {
	if g != nil {
		fmt.Fprintln(g.in, verb, what)
	}
}

func (g *guard) close() error {
	_ = g.in.Close()
	return g.cmd.Wait()
}
