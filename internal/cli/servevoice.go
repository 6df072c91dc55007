package cli

import (
	"context"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/tarehq/tare/front/spool"
)

// voice is what a server says on standard error. Nobody waits for that to be read.
type stderrLog struct{ *spool.Spool }

func newStderrLog(w io.Writer) stderrLog {
	return stderrLog{spool.New(nopCloser{w}, spool.Config{
		Lost: func(n int, why error) []byte { return fmt.Appendf(nil, "tare: %d lines lost here: %v\n", n, why) },
	})}
}

// say says a line.
func (v stderrLog) print(text string) {
	_, _ = v.Write([]byte("tare: " + strings.ReplaceAll(text, "\n", " ") + "\n"))
}

func (v stderrLog) logger() *log.Logger { return log.New(v.Spool, "tare: ", 0) }

func (v stderrLog) close() {
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	_ = v.Close(ctx) // nobody is left to tell
}
