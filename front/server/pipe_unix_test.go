//go:build unix

package server_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// A configuration that is a named pipe without a writer does not keep Run from ending.
func TestRunEndsWhileConfigurationIsAwaited(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
	for _, drains := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		s := server.New(server.File{Path: pipe},
			server.Options{Stdout: io.Discard, Stderr: io.Discard, NoSignals: true})
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		if drains {
			s.Drain()
		} else {
			cancel()
		}
		testkit.Check(t, <-ended)
		cancel()
	}
	writer := testkit.Value(os.OpenFile(pipe, os.O_RDWR, 0))(t) // ends the waits
	writer.Close()
}
