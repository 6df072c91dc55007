package front_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/spool"
)

// A log that blocks does not stop requests, and reports the lost lines in its own format. None of
// many files has such a line: it may concern the others.
func TestLostLinesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ path, escape, want string }{
			{"p", "", `"1 lines lost: the output accepts nothing, or too little"`},
			{"p", "json", `"lost":1`},
			{"/p$arg_none", "", ""},
		} {
			out := &blocked{gate: make(chan struct{})}
			h := newFront(t, conf.Config{
				LogFormats: []conf.LogFormat{{Name: "f", Text: "$arg_x", Escape: c.escape}},
				Hosts: []conf.Host{{Steps: []conf.Step{conf.Return{Status: 204}},
					Defaults: &conf.Settings{Logs: []conf.Log{{Path: c.path, Format: "f"}}}}},
			}, front.OpenLogs(func(string) (io.WriteCloser, error) { return out, nil }))
			long := strings.Repeat("x", spool.DefaultLimit)
			start := time.Now()
			for range 3 {
				get(t, h, "/?x="+long)
				synctest.Wait()
			}
			if d := time.Since(start); d != time.Second {
				t.Errorf("requests were held up for %v, want %v", d, time.Second)
			}
			close(out.gate)
			synctest.Wait()
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			text := out.text.String()
			if !strings.Contains(text, c.want) || c.want == "" && strings.Contains(text, "lost") {
				t.Errorf("it ends in %q, want %q", text[max(0, len(text)-100):], c.want)
			}
		}
	})
}

// blocked blocks until its gate is closed.
type blocked struct {
	gate chan struct{}
	text strings.Builder
}

func (s *blocked) Write(p []byte) (int, error) { <-s.gate; return s.text.Write(p) }
func (*blocked) Close() error                  { return nil }
