package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A named pipe without a writer holds a command until the interrupt, and no longer.
func TestInterruptEndsWaitForPipe(t *testing.T) {
	load := []string{"load", "https://127.0.0.1:1/"}
	for flag, args := range map[string][]string{"--urls": load, "--body-file": load, "--cacert": load,
		"-c": {"serve", "-t"}} {
		dir := t.TempDir()
		pipe := filepath.Join(dir, "pipe")
		testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		var out, errs testkit.Log // the reader that is left may write, too
		code := make(chan int, 1)
		go func() {
			env := Env{Dir: dir, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
			code <- Run(ctx, env, append(args, flag, "pipe"))
		}()
		cancel()
		testkit.Equal(t, <-code, exitStop, flag, "exit code")
		if args[0] == "load" {
			testkit.Contains(t, errs.String(), "interrupted before the first request", flag)
		}
		writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // the reader that is left ends
		testkit.Must(t, err)
		_ = writer.Close()
	}
}
