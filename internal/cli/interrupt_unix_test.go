//go:build unix

package cli_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/cli"
	"github.com/tarehq/tare/internal/testkit"
)

// A configuration that is a named pipe without a writer does not keep a signal from ending its
// check.
func TestSignalEndsWaitForPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int)
	go func() {
		env := cli.Env{Stdout: io.Discard, Stderr: io.Discard, Dir: t.TempDir()}
		code <- cli.Run(ctx, env, []string{"serve", "-t", "-c", pipe})
	}()
	cancel()
	testkit.Equal(t, <-code, 130, "exit code")
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // ends the wait
	testkit.Must(t, err)
	writer.Close()
}
