package contender_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
)

// The threads of this process and its contenders have a higher priority until it is restored. The
// guard restores that of the session.
func TestPrioritizeIsInheritedAndRestored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "autogroup")
	withdrawn := filepath.Join(t.TempDir(), "autogroup")
	for _, name := range []string{file, withdrawn} {
		write(t, "-10", name)
	}
	contender.Guard(strings.NewReader("nice " + file + "\nnice " + withdrawn + "\n-nice " + withdrawn + "\n"))
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
		testkit.Check(t, errors.Join(restore(), own(0)))
	}()
	r := testkit.Value(start(t.Context(), s, actor("server"), contender.Setting{Cores: 1}))(t)
	all, err := r.Processes()
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	nice := func(pid int) int {
		raw := testkit.Value(unix.Getpriority(unix.PRIO_PROCESS, pid))(t)
		return 20 - raw
	}
	if got, err := nice(all[0].PID), own(contender.Priority); got != contender.Priority || err != nil {
		t.Errorf("a contender has nice %d; %v", got, err)
	}
	testkit.Check(t, r.Stop())
}
