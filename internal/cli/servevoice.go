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
type voice struct{ *spool.Spool }

func newVoice(w io.Writer) voice {
	return voice{spool.New(unclosed{w}, spool.Config{
		Lost: func(n int, why error) []byte { return fmt.Appendf(nil, "tare: %d lines lost here: %v\n", n, why) },
	})}
}

// say says a line.
func (v voice) say(text string) {
	_, _ = v.Write([]byte("tare: " + strings.ReplaceAll(text, "\n", " ") + "\n"))
}

func (v voice) logger() *log.Logger { return log.New(v.Spool, "tare: ", 0) }

func (v voice) close() {
	ctx, cancel := context.WithTimeout(context.Background(), logGrace)
	defer cancel()
	_ = v.Close(ctx) // nobody is left to tell
}
