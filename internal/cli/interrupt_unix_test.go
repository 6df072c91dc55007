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
)

// A configuration that is a named pipe without a writer does not keep a signal from ending serve.
func TestSignalEndsWaitForPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for want, args := range map[int][]string{0: {"serve", "-c", pipe}, 130: {"serve", "-t", "-c", pipe}} {
		ctx, cancel := context.WithCancel(t.Context())
		code := make(chan int)
		go func() {
			code <- cli.Run(ctx, cli.Env{Stdout: io.Discard, Stderr: io.Discard, Dir: t.TempDir()}, args)
		}()
		cancel()
		if got := <-code; got != want {
			t.Errorf("%v: exit code %d, want %d", args, got, want)
		}
	}
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // ends the waits
	if err != nil {
		t.Fatal(err)
	}
	writer.Close()
}
