package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// signalled is "signalled SIGNAL CODE UNTIL COMMAND...". It starts a command with default signal
// actions, waits, sends the signal, and fails unless the command exits with the code. All waits are
// limited.
//
// UNTIL is a duration, or a file pattern, a colon, and a text that the file then contains;
// variables in it are expanded. CODE is a number, or "killed".
func signalled() {
	if err := startAndSignal(os.Args[1], os.Args[2], os.ExpandEnv(os.Args[3]), os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "signalled:", err)
		os.Exit(1)
	}
}

func startAndSignal(name, code, until string, words []string) error {
	sig, ok := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM,
		"KILL": syscall.SIGKILL}[name]
	if !ok {
		return fmt.Errorf("unknown signal %q", name)
	}
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		signal.Notify(make(chan os.Signal, 1), s) // a signal that is handled here has its default action in the command
	}
	c := exec.Command(words[0], words[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // its state is looked at
		close(ended)
	}()
	defer func() {
		_ = c.Process.Kill()
		<-ended
	}()
	if err := awaitUntil(until, ended); err != nil {
		return err
	}
	if err := c.Process.Signal(sig); err != nil {
		return fmt.Errorf("SIG%s: %w", name, err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		return fmt.Errorf("%q has not ended %v after SIG%s", words, patience, name)
	}
	got := strconv.Itoa(c.ProcessState.ExitCode())
	if c.ProcessState.ExitCode() < 0 {
		got = "killed"
	}
	if got != code {
		return fmt.Errorf("%q ended with %s, want %s", words, got, code)
	}
	return nil
}

// awaitUntil waits for UNTIL while the command runs.
func awaitUntil(until string, ended <-chan struct{}) error {
	pattern, text, isFile := strings.Cut(until, ":")
	bound, holds := patience, func() bool { return fileHolds(pattern, text) }
	if !isFile {
		d, err := time.ParseDuration(until)
		if err != nil {
			return err
		}
		bound, holds = d, func() bool { return false }
	}
	for deadline := time.Now().Add(bound); !holds(); {
		select {
		case <-ended:
			return fmt.Errorf("the command ended before %s", until)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			if isFile {
				return fmt.Errorf("waited %v for %q in %s", bound, text, pattern)
			}
			return nil
		}
	}
	return nil
}

// fileHolds reports whether a file that matches a pattern exists, is not empty and contains a text.
func fileHolds(pattern, text string) bool {
	names, _ := filepath.Glob(pattern)
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && len(b) > 0 && bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}
