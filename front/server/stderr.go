package server

import (
	"context"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/spool"
)

// stderrLog is a server's log on standard error. Writes to it never block the server.
type stderrLog struct{ spool *spool.Spool }

func newStderrLog(w io.Writer) stderrLog {
	return stderrLog{spool.New(accesslog.NopCloser{Writer: w}, spool.Config{
		Lost: func(n int, why error) []byte { return fmt.Appendf(nil, "tare: %d log lines lost: %v\n", n, why) },
	})}
}

func (l stderrLog) print(text string) {
	_, _ = l.spool.Write([]byte("tare: " + strings.ReplaceAll(text, "\n", " ") + "\n"))
}

func (l stderrLog) logger() *log.Logger { return log.New(l.spool, "tare: ", 0) }

func (l stderrLog) close() {
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	_ = l.spool.Close(ctx) // there is nowhere to report it
}
