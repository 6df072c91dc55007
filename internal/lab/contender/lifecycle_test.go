package contender_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/testkit"
)

// A process of a contender can be ended and started again, at the same address. Other replicas
// serve meanwhile.
func TestProcessesStartAgain(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts contenders")
	s := stage(t, contender.StageOptions{})
	r, err := start(context.Background(), s, actor("server"), contender.Setting{Cores: 1, Replicas: 2, Files: 300})
	testkit.Must(t, err)
	defer func() {
		testkit.Check(t, r.Stop())
	}()
	testkit.Equal(t, strings.Join(r.Roles(), ", "), "application, application 2", "roles")
	checkFiles(t, r, 300)
	testkit.Must(t, r.Signal("application", syscall.SIGKILL))
	testkit.WaitFor(t, "the process to end", func() bool {
		ended, err := r.Ended("application")
		return err == nil && ended
	})
	testkit.Error(t, r.Signal("application", syscall.SIGTERM), "", "a signal to an ended process")
	if ended, err := r.Ended("application 2"); ended || err != nil {
		t.Error(ended, err)
	}
	testkit.Must(t, r.StartAgain(context.Background(), "application"))
	testkit.WaitFor(t, "the new process to respond", func() bool {
		return equal.Ready(r.Contender, equal.Request{Method: "GET", Path: "/", Host: "a"})(t.Context(), r.Address) == nil
	})
	err = r.StartAgain(context.Background(), "application")
	testkit.Error(t, err, "still runs")
	for _, err := range []error{r.StartAgain(context.Background(), "nginx"), r.Signal("nginx", syscall.SIGTERM)} {
		testkit.Error(t, err, "has no nginx")
	}
}

// checkFiles checks the limit of open files of each process.
func checkFiles(t *testing.T, r *contender.Running, want int) {
	t.Helper()
	all, err := r.Processes()
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, p := range all {
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.PID))
		text := strings.Join(strings.Fields(string(limits)), " ")
		if err != nil || !strings.Contains(text, fmt.Sprintf("Max open files %d %d", want, want)) {
			t.Errorf("%v\n%s", err, limits)
		}
	}
}

func TestMemoryOfProcesses(t *testing.T) {
	own, err := proc.Family(syscall.Getpgrp())
	if bytes := proc.Resident(own); err != nil || bytes < 1<<20 {
		t.Error(bytes, err)
	}
	testkit.Value(proc.SocketMemory())(t)
}

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
	testkit.Fails(stage(t, contender.StageOptions{}).Prioritize())(t, "", "without a guard nothing would restore it")
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
