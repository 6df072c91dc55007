package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	reference = "net/http" // the mode in which net/http serves
	pass      = "PASS"
	killDelay = 10 * time.Second // in which a program reports what hangs
)

// asOrdinaryUser gives the folder $0 to the user nobody, and runs its arguments as that user. It
// expects a network namespace of its own: all ports are free there.
const asOrdinaryUser = `chown -R 65534:65534 "$0" && ip link set lo up &&
	exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`

type trial struct {
	outcomes   map[string]string // pass, FAIL or SKIP, by test; none if it hangs or ends the program
	unfinished []string          // tests, without subtests, that ran when the program ended
	text       string            // that the program has written
	isServed   bool              // tare has served or sent a request
}

// run runs a program in a mode: as an ordinary user if this process is root's, and in a folder of
// its own. only and skip are regular expressions of tests; "" stands for all and none.
func (b *builder) run(ctx context.Context, p program, mode, only, skip string) *trial {
	home := filepath.Join(b.work, "home")
	mark := filepath.Join(home, "mark")
	b.fail(errors.Join(os.RemoveAll(home), os.MkdirAll(filepath.Join(home, "tmp"), 0o755)))
	ctx, cancel := context.WithTimeout(ctx, b.Limit+killDelay)
	defer cancel()
	args := []string{p.file, "-test.v=test2json", "-test.timeout=" + b.Limit.String(), "-test.run=" + only}
	if skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	if b.Script != "" {
		args, p.Dir = []string{"bash", "-eu", "-c", b.text}, home
	}
	if os.Geteuid() == 0 {
		args = append([]string{"unshare", "--net", "sh", "-c", asOrdinaryUser, b.work}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// Tests that run "go build", which takes minutes without a cache, do not find it.
	cmd.Env = []string{"PATH=" + b.runner.work + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		"USER=nobody", "HOME=" + home, "TMPDIR=" + filepath.Join(home, "tmp"), "APPLICATION=" + p.file,
		"TARE_OTHERS_MODE=" + mode, "TARE_OTHERS_MARK=" + mark}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killAll := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var text bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Cancel, cmd.WaitDelay = p.Dir, &text, &text, killAll, killDelay
	if err := cmd.Run(); cmd.Process == nil {
		b.fail(err)
	} else {
		_ = killAll() // what it has left
	}
	t := newTrial(text.String(), b.Script != "")
	_, err := os.Stat(mark)
	t.isServed = err == nil
	return t
}

// newTrial reads what a program has written. A script is a test that passes with its text.
func newTrial(text string, isScript bool) *trial {
	t := &trial{outcomes: make(map[string]string), text: text}
	if isScript {
		t.outcomes["script"] = pass + text
		return t
	}
	event := regexp.MustCompile(`\x16 *(?:=== RUN|--- (PASS|FAIL|SKIP):) +(\S+)`)
	for _, m := range event.FindAllStringSubmatch(text, -1) {
		t.outcomes[m[2]] = m[1]
	}
	for test, outcome := range t.outcomes {
		if outcome == "" && !strings.Contains(test, "/") {
			t.unfinished = append(t.unfinished, test)
		}
	}
	return t
}
