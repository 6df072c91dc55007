package contender

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tarehq/tare/lab/kernel"
	"github.com/tarehq/tare/lab/proc"
)

// The guard is told, a line each, which process groups run, which folders exist and
// which kernel settings were changed. When its input ends before they are taken back, the
// process that it guards has died, and the guard ends, removes and undoes them.
const (
	guardWatch  = "watch"  // a process group
	guardForget = "forget" // one that has ended
	guardRemove = "remove" // a folder
	guardMark   = "mark"   // a variable in the environment of all that runs, groups of its own included
	guardUndo   = "undo"   // a kernel.Change, in JSON
	guardUndone = "undone" // likewise
)

// Guard is the body of the guard process. It returns when in ends.
func Guard(in io.Reader) {
	w := wards{groups: make(map[int]bool), changes: make(map[string]kernel.Change)}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		verb, what, _ := strings.Cut(lines.Text(), " ")
		w.hear(verb, what)
	}
	w.end()
}

// wards are what a guard was told of.
type wards struct {
	groups         map[int]bool
	folders, marks []string
	changes        map[string]kernel.Change // by the setting's name
}

// hear takes one line. One that cannot be understood is nothing that could be undone.
func (w *wards) hear(verb, what string) {
	group, groupErr := strconv.Atoi(what)
	var change kernel.Change
	changeErr := json.Unmarshal([]byte(what), &change)
	switch {
	case verb == guardRemove:
		w.folders = append(w.folders, what)
	case verb == guardMark:
		w.marks = append(w.marks, what)
	case verb == guardUndo && changeErr == nil:
		w.changes[change.Name] = change
	case verb == guardUndone && changeErr == nil:
		delete(w.changes, change.Name)
	case groupErr != nil || group <= 1:
	case verb == guardWatch:
		w.groups[group] = true
	case verb == guardForget:
		delete(w.groups, group)
	}
}

// end ends, removes and undoes what was not taken back. Nobody is left to tell of errors.
func (w *wards) end() {
	for group := range w.groups {
		family, _ := proc.Family(group)
		_ = syscall.Kill(-group, syscall.SIGKILL)
		for _, p := range family {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	endMarked(w.marks)
	for _, c := range w.changes {
		_ = c.Undo()
	}
	for _, f := range w.folders {
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

// Keep has the guard undo a change of a kernel setting, should this process be killed
// before Forget.
func (s *Stage) Keep(c kernel.Change) { s.guard.tellChange(guardUndo, c) }

// Forget takes a change back that was undone.
func (s *Stage) Forget(c kernel.Change) { s.guard.tellChange(guardUndone, c) }

func (g *guard) tellChange(verb string, c kernel.Change) {
	line, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("contender: BUG: a change of a kernel setting: %v", err))
	}
	g.tell(verb, string(line))
}
