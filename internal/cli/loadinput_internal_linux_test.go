package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A named pipe without a writer holds load until the interrupt, and no longer.
func TestLoadEndsBeforeItsInputBegins(t *testing.T) {
	for _, flag := range []string{"--urls", "--body-file", "--cacert"} {
		dir := t.TempDir()
		pipe := filepath.Join(dir, "pipe")
		testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		var out, errs bytes.Buffer
		code := make(chan int, 1)
		go func() {
			env := Env{Dir: dir, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
			code <- Run(ctx, env, []string{"load", "https://127.0.0.1:1/", flag, "pipe"})
		}()
		cancel()
		if got := <-code; got != exitStop || !strings.Contains(errs.String(), "interrupted before the first request") {
			t.Errorf("%s: exit code %d: %s", flag, got, &errs)
		}
		writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // the reader that is left ends
		testkit.Must(t, err)
		_ = writer.Close()
	}
}
