package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// reference is the mode in which net/http serves.
	reference = "net/http"
	// killDelay is the time in which a program reports what hangs.
	killDelay = 10 * time.Second
	nobody    = 65534
)

// Outcomes of a test, as go test names them. A test that hangs or ends the program has none.
const (
	passed = "pass"
	failed = "fail"
)

// trial is one run of a program.
type trial struct {
	outcomes   map[string]string // by test
	output     map[string]string
	unfinished []string // tests, without subtests, that ran when the program ended
	isServed   bool     // tare has served or sent a request
}

// run runs a program in a mode: as an ordinary user if this process is root's, and in a folder of
// its own. only and skip are regular expressions of tests; "" stands for all and none.
func (b *builder) run(ctx context.Context, p program, mode, only, skip string) (*trial, error) {
	home := filepath.Join(b.work, "home")
	mark := filepath.Join(home, "mark")
	if err := errors.Join(os.RemoveAll(home), os.MkdirAll(filepath.Join(home, "tmp"), 0o755)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.Limit+killDelay)
	defer cancel()
	args := []string{p.file, "-test.v=test2json", "-test.timeout=" + b.Limit.String(), "-test.run=" + only}
	if skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	if b.Script != "" {
		args = []string{"bash", "-eu", filepath.Join(b.work, b.Script+".sh")}
		p.Dir = home
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + b.work + ":" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + filepath.Join(home, "tmp"),
		"USER=nobody", "TARE_OTHERS_MODE=" + mode, "TARE_OTHERS_MARK=" + mark, "APPLICATION=" + p.file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := exec.CommandContext(ctx, "chown", "-R", fmt.Sprint(nobody, ":", nobody), b.work).Run(); err != nil {
			return nil, err
		}
	}
	killAll := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var text bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Cancel, cmd.WaitDelay = p.Dir, &text, &text, killAll, killDelay
	err := cmd.Run()
	if cmd.Process == nil {
		return nil, err
	}
	_ = killAll() // what it has left
	var t *trial
	if b.Script != "" {
		t = &trial{outcomes: map[string]string{"script": passed}, output: map[string]string{"script": text.String()}}
		err = nil
	} else {
		t, err = parseTrial(context.WithoutCancel(ctx), &text)
	}
	if err == nil {
		_, markErr := os.Stat(mark)
		t.isServed = markErr == nil
	}
	return t, err
}

// parseTrial reads what a test program has written.
func parseTrial(ctx context.Context, text *bytes.Buffer) (*trial, error) {
	convert := exec.CommandContext(ctx, "go", "tool", "test2json")
	convert.Stdin = text
	out, err := convert.Output()
	if err != nil {
		return nil, fmt.Errorf("go tool test2json: %w", err)
	}
	t := &trial{outcomes: make(map[string]string), output: make(map[string]string)}
	began := make(map[string]bool)
	for line := range bytes.Lines(out) {
		var event struct{ Action, Test, Output string }
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		switch event.Action {
		case "output":
			t.output[event.Test] += event.Output
		case "run":
			began[top(event.Test)] = true
		case passed, failed, "skip":
			t.outcomes[event.Test] = event.Action
		}
	}
	delete(t.outcomes, "") // of the program
	for test := range began {
		if t.outcomes[test] == "" {
			t.unfinished = append(t.unfinished, test)
		}
	}
	return t, nil
}

// top returns the test that contains a subtest.
func top(test string) string {
	test, _, _ = strings.Cut(test, "/")
	return test
}
