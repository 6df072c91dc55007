package server

import (
	"context"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/tarehq/tare/front/spool"
)

// stderrLog is a server's log on standard error. Writes to it never block the server.
type stderrLog struct{ *spool.Spool }

func newStderrLog(w io.Writer) stderrLog {
	return stderrLog{spool.New(nopCloser{w}, spool.Config{
		Lost: func(n int, why error) []byte { return fmt.Appendf(nil, "tare: %d log lines lost: %v\n", n, why) },
	})}
}

// print prints a line.
func (v stderrLog) print(text string) {
	_, _ = v.Write([]byte("tare: " + strings.ReplaceAll(text, "\n", " ") + "\n"))
}

func (v stderrLog) logger() *log.Logger { return log.New(v.Spool, "tare: ", 0) }

func (v stderrLog) close() {
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	_ = v.Close(ctx) // there is nowhere to report it
}

// nopCloser is a stream that another owner closes.
type nopCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }
