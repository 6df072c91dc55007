package contender_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/kernel"
)

// The threads of this process and its contenders have a higher priority until it is restored. The
// guard restores that of the session.
func TestPrioritizeIsInheritedAndRestored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "autogroup")
	withdrawn := filepath.Join(t.TempDir(), "autogroup")
	for _, name := range []string{file, withdrawn} {
		write(t, "-10", name)
	}
	contender.Guard(strings.NewReader("nice " + file + "\nnice " + withdrawn + "\nunnice " + withdrawn + "\n"))
	for name, want := range map[string]string{file: "0", withdrawn: "-10"} {
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := stage(t, contender.StageOptions{}).Prioritize(); err == nil {
		t.Error("without a guard nothing would restore it")
	}
	s := stage(t, contender.StageOptions{Guard: []string{"cat"}})
	restore, err := s.Prioritize()
	if err != nil {
		t.Skipf("the priority cannot be raised: %v", err)
	}
	own := func(want int) error {
		return contender.EachThread(func(tid int) error {
			if raw, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil && 20-raw != want {
				return fmt.Errorf("thread %d: nice %d, want %d", tid, 20-raw, want)
			}
			return nil
		})
	}
	defer func() {
		if err := errors.Join(restore(), own(0)); err != nil {
			t.Error(err)
		}
	}()
	r, err := start(t.Context(), s, actor("server"), contender.Setting{Cores: 1})
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.Processes()
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	nice := func(pid int) int {
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
		if err != nil {
			t.Fatal(err)
		}
		return 20 - raw
	}
	if got, err := nice(all[0].PID), own(contender.Priority); got != contender.Priority || err != nil {
		t.Errorf("a contender has nice %d; %v", got, err)
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}

// The guard undoes changes of kernel settings that were not withdrawn, unless another program has
// changed the setting.
func TestGuardUndoesChanges(t *testing.T) {
	tree := kernel.Tree{Root: t.TempDir()}
	lines := []string{`undo {"name": "no JSON`, `undo {"name": "../../outside", "from": "1", "to": "2"}`}
	line := func(verb string, c kernel.Change) {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, verb+" "+string(b))
	}
	now := map[string]string{"changed": "2", "foreign": "3", "undone": "2", "ports": "16384 65535"}
	for name, value := range now {
		write(t, value+"\n", tree.Root, "net", name)
		c := kernel.Change{Tree: tree, Name: "net." + name, From: "1", To: "2"}
		if name == "ports" {
			c.From, c.To = "32768 60999", value
		}
		line("undo", c)
		if name == "undone" {
			line("undone", c)
		}
	}
	contender.Guard(strings.NewReader(strings.Join(lines, "\n") + "\n"))
	for name, want := range map[string]string{"changed": "1", "foreign": "3", "undone": "2", "ports": "32768 60999"} {
		b, err := os.ReadFile(filepath.Join(tree.Root, "net", name))
		if got := strings.TrimSpace(string(b)); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}
