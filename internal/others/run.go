package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// trial is one run of a program.
type trial struct {
	outcomes   map[string]string // PASS, FAIL or SKIP, by test; none if it hangs or ends the program
	unfinished []string          // tests, without subtests, that ran when the program ended
	text       string            // that the program has written
	isServed   bool              // tare has served or sent a request
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
		args, p.Dir = []string{"bash", "-eu", p.file + ".sh"}, home
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// Tests that run "go build", which takes minutes without a cache, do not find it.
	cmd.Env = []string{"PATH=" + b.work + ":/usr/local/bin:/usr/bin:/bin", "USER=nobody", "HOME=" + home,
		"TMPDIR=" + filepath.Join(home, "tmp"), "APPLICATION=" + p.file,
		"TARE_OTHERS_MODE=" + mode, "TARE_OTHERS_MARK=" + mark}
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
	t := newTrial(text.String(), b.Script != "")
	_, markErr := os.Stat(mark)
	t.isServed = markErr == nil
	return t, nil
}

// newTrial reads what a program has written. A script counts as one test.
func newTrial(text string, isScript bool) *trial {
	t := &trial{outcomes: make(map[string]string), text: text}
	if isScript {
		t.outcomes["script"] = "PASS"
		return t
	}
	event := regexp.MustCompile(`\x16 *(?:=== RUN|--- (PASS|FAIL|SKIP):) +(\S+)`)
	for _, m := range event.FindAllStringSubmatch(text, -1) {
		t.outcomes[m[2]] = m[1]
	}
	for test, outcome := range t.outcomes {
		if outcome == "" && test == top(test) {
			t.unfinished = append(t.unfinished, test)
		}
	}
	return t
}

// top returns the test that contains a subtest.
func top(test string) string {
	test, _, _ = strings.Cut(test, "/")
	return test
}

// firstLevel returns the subtest of the first level that contains a subtest, or the test itself.
func firstLevel(test string) string {
	if name, rest, ok := strings.Cut(test, "/"); ok {
		return name + "/" + top(rest)
	}
	return test
}
