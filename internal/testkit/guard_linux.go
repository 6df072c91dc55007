package testkit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// RunEnv is a variable in the environment of programs that tests start. Its value is unique to the
// run. A test that sets its own environment must include it.
const RunEnv = "TARE_TEST_RUN"

const exitTimeout = 10 * time.Second // how long programs may outlive the tests, on a busy machine

// runGuarded runs tests with a guard: a process that kills the programs they started if this
// process is killed. Programs that still run after the tests are a failure, and are killed.
//
// The guard finds programs by their environment. Programs that overwrite their environment, such as
// nginx, must be started by Start.
func runGuarded(run func() int) int {
	mark := fmt.Sprintf("%s=%d-%d", RunEnv, os.Getpid(), time.Now().UnixNano())
	end, err := startGuard(mark)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testkit: guard:", err)
		return 1
	}
	defer end() //nolint:errcheck // the guard ends with this process at the latest
	_ = os.Setenv(RunEnv, mark[len(RunEnv)+1:])
	code := run()
	var left []int
	for late := time.Now().Add(exitTimeout); ; time.Sleep(10 * time.Millisecond) {
		if left = processesWith(mark); len(left) == 0 || time.Now().After(late) {
			break
		}
	}
	for _, pid := range left {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		fmt.Fprintf(os.Stderr, "testkit: process %d outlived the tests: %q\n", pid,
			bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		code = max(code, 1)
	}
	KillMarked(mark)
	return code
}

// guardScript kills the processes with $0 in their environment once its standard input ends. It
// repeats because a process may start another one meanwhile.
const guardScript = `cat >/dev/null
for round in 1 2 3 4 5; do
	found=$(grep -lsaF "$0" /proc/[0-9]*/environ)
	test -n "$found" || exit 0
	for p in $found; do
		p=${p#/proc/}
		kill -KILL "${p%/environ}"
	done
done`

// startGuard starts the guard and returns a function that ends it. The guard has its own session,
// where ^C does not reach it. It is no child of this process, because some tests count children, and
// no program of tests that started this process. It has no output, because "go test" waits until all
// writers have closed the test's output.
func startGuard(mark string) (end func() error, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c := exec.Command("/bin/sh", "-c", "("+guardScript+") <&3 &", mark)
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, RunEnv+"=") })
	c.ExtraFiles = []*os.File{r}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Run(); err != nil {
		w.Close()
		return nil, err
	}
	return w.Close, nil
}

// KillMarked kills the processes with mark in their environment, and those that they start
// meanwhile.
func KillMarked(mark string) {
	const rounds = 5
	for range rounds {
		pids := processesWith(mark)
		if pids == nil {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func processesWith(mark string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if environ, err := os.ReadFile(file); err == nil && bytes.Contains(environ, []byte(mark)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}
