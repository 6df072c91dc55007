package contender_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

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
	if err := r.Signal("application", syscall.SIGTERM); err == nil {
		t.Error("an ended process received a signal")
	}
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
	if _, err := proc.SocketMemory(); err != nil {
		t.Error(err)
	}
}
