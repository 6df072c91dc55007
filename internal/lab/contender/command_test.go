package contender_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
)

// A command's children end with it, although they keep its output open, and it succeeds.
func TestCommandsLeaveNoChildren(t *testing.T) {
	out := testkit.Value(new(contender.Command).Run(t.Context(), "sh", "-c", "sleep 1000 & echo $!"))(t)
	stat := fmt.Sprintf("/proc/%s/stat", strings.TrimSpace(string(out)))
	testkit.WaitFor(t, "the child to end", func() bool {
		text, err := os.ReadFile(stat)
		return err != nil || strings.Contains(string(text), ") Z ")
	})
}

// A program that hangs or prints without end is ended, and the error has the reason and its output.
// The thread may then use its processors again.
func TestCommandsAreLimited(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.CPUSet
	testkit.Must(t, unix.SchedGetaffinity(0, &before))
	first := 0
	for !before.IsSet(first) {
		first++
	}
	for script, want := range map[string]string{
		"echo begun; sleep 1000": "it has not ended after 100ms",
		"yes garbage":            "its output has more than 16 MB: garbage",
		"yes garbage >&2":        "its output has more than 16 MB: garbage",
		"echo begun; exit 3":     "exit status 3: begun",
	} {
		c := contender.Command{CPUs: []int{first}}
		if strings.HasPrefix(want, "it has not ended") {
			c.Limit = 100 * time.Millisecond
		}
		_, err := c.Run(t.Context(), "sh", "-c", script)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %.200v, want %s", script, err, want)
		}
	}
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != before {
		t.Errorf("the thread runs on %v, before on %v: %v", after, before, err)
	}
}
