package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// reference is the mode in which net/http serves.
	reference = "net/http"
	// killDelay is the time that a program has after its timeout to report what hangs.
	killDelay = 10 * time.Second
)

// outcome is what became of a test.
type outcome string

// Outcomes, as go test names them; a test that hangs or ends the program has none.
const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
)

// trial is one run of a program.
type trial struct {
	outcomes map[string]outcome // by test
	output   map[string]string
	// unfinished has the tests without subtests that ran when the program ended.
	unfinished []string
	served     bool // tare has served or sent a request
}

// sandbox runs other people's programs, as an ordinary user if this process is root's, in a folder
// of their own.
type sandbox struct {
	dir        string
	credential *syscall.Credential // nil to stay the same user
}

// newSandbox makes the folder. Only root can become another user.
func newSandbox(dir string) (*sandbox, error) {
	s := &sandbox{dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil || os.Geteuid() != 0 {
		return s, err
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(nobody.Gid, 10, 32)
	s.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return s, errors.Join(err1, err2)
}

// own gives the files below dir to the user of the sandbox.
func (s *sandbox) own(dir string) error {
	if s.credential == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(s.credential.Uid), int(s.credential.Gid))
	})
}

// command returns a command in the sandbox. Its process group ends with the context.
func (s *sandbox) command(ctx context.Context, dir, mode string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + filepath.Join(s.dir, "tmp"),
		"USER=nobody", "TARE_OTHERS_MODE=" + mode, "TARE_OTHERS_MARK=" + s.mark()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killDelay
	return cmd
}

func (s *sandbox) mark() string { return filepath.Join(s.dir, "mark") }

// test runs tests of a package in a mode. only is a regular expression, or "" for all; skip
// likewise, or "" for none.
func (s *sandbox) test(ctx context.Context, p testPackage, mode, only, skip string, limit time.Duration) (*trial, error) {
	if err := os.RemoveAll(s.mark()); err != nil {
		return nil, err
	}
	args := []string{p.program, "-test.v=test2json", "-test.timeout=" + limit.String()}
	if only != "" {
		args = append(args, "-test.run="+only)
	}
	if skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	ctx, cancel := context.WithTimeout(ctx, limit+killDelay)
	defer cancel()
	cmd := s.command(ctx, p.Dir, mode, args...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, err
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has left
	t, err := parseTrial(ctx, &text)
	if err == nil {
		_, markErr := os.Stat(s.mark())
		t.served = markErr == nil
	}
	return t, err
}

// parseTrial reads what a test program has written.
func parseTrial(ctx context.Context, text *bytes.Buffer) (*trial, error) {
	convert := exec.CommandContext(context.WithoutCancel(ctx), "go", "tool", "test2json")
	convert.Stdin = text
	out, err := convert.Output()
	if err != nil {
		return nil, fmt.Errorf("go tool test2json: %w", err)
	}
	t := &trial{outcomes: make(map[string]outcome), output: make(map[string]string)}
	began := make(map[string]bool)
	for line := range bytes.Lines(out) {
		var event struct{ Action, Test, Output string }
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		switch o := outcome(event.Action); {
		case event.Action == "output":
			t.output[event.Test] += event.Output
		case event.Action == "run":
			began[top(event.Test)] = true
		case event.Test != "" && (o == passed || o == failed || o == skipped):
			t.outcomes[event.Test] = o
		}
	}
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
