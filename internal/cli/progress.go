package cli

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

const (
	// barWidth is how many columns the bar itself takes.
	barWidth = 24
	// plainEvery is how often a line is printed where nothing can be redrawn.
	plainEvery = 10 * time.Second
)

// progress shows how far a command has come: a bar that is redrawn on a terminal, a
// line now and then elsewhere.
type progress struct {
	out  io.Writer
	text atomic.Pointer[string]

	container *mpb.Progress // nil where nothing can be redrawn
	bar       *mpb.Bar
	printed   time.Time
}

// newProgress shows progress towards total on w.
func newProgress(w io.Writer, total time.Duration) *progress {
	p := &progress{out: w, printed: time.Now()}
	empty := ""
	p.text.Store(&empty)
	if canRedraw(w) {
		p.container = mpb.New(mpb.WithOutput(w), mpb.WithWidth(barWidth), mpb.WithRefreshRate(glance))
		p.bar = p.container.New(int64(total), mpb.BarStyle().Lbound("").Rbound("").Filler("█").Tip("▌").Padding("░"),
			mpb.BarRemoveOnComplete(),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return *p.text.Load() })))
	}
	return p
}

// glance is how often the bar is redrawn.
const glance = 100 * time.Millisecond

// set shows that done of the total has been done, and a text.
func (p *progress) set(done time.Duration, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.text.Store(&text)
	if p.bar != nil {
		p.bar.SetCurrent(int64(done))
		return
	}
	if now := time.Now(); now.Sub(p.printed) >= plainEvery {
		p.printed = now
		fmt.Fprintln(p.out, text)
	}
}

// total corrects the total.
func (p *progress) total(total time.Duration) {
	if p.bar != nil {
		p.bar.SetTotal(int64(total), false)
	}
}

// say prints a line that stays.
func (p *progress) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...) + "\n"
	if p.container != nil {
		if _, err := io.WriteString(p.container, line); err == nil {
			return
		}
	}
	_, _ = io.WriteString(p.out, line)
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.container.Wait()
	}
}
