package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/load/report"
)

const (
	// barWidth is how many columns the bar itself takes.
	barWidth = 24
	// plainEvery is how often a line is printed where nothing can be redrawn.
	plainEvery = 10 * time.Second
)

// progress shows how far a command has come: lines that are redrawn on a terminal, a line
// now and then elsewhere.
type progress struct {
	out   io.Writer
	block *block // nil where nothing can be redrawn

	mu      sync.Mutex
	whole   time.Duration
	printed time.Time
}

// newProgress shows progress towards total on w.
func newProgress(w io.Writer, total time.Duration) *progress {
	return &progress{out: w, block: newBlock(w), whole: total, printed: time.Now()}
}

// show draws lines on a terminal. Elsewhere it prints the plain one if it is time for one.
func (p *progress) show(lines []string, plain string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.block != nil {
		p.block.draw(lines)
		return
	}
	if now := time.Now(); now.Sub(p.printed) >= plainEvery {
		p.printed = now
		fmt.Fprintln(p.out, plain)
	}
}

// set shows that done of the total has been done, and a text.
func (p *progress) set(done time.Duration, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.mu.Lock()
	whole := p.whole
	p.mu.Unlock()
	p.show([]string{bar(float64(done)/float64(max(whole, 1))) + " " + text}, text)
}

// total corrects the total.
func (p *progress) total(total time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole = total
}

// say prints a line that stays.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	if p.block != nil {
		p.block.above(line)
		return
	}
	fmt.Fprintln(p.out, line)
}

// end takes away what can be redrawn.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.block != nil {
		p.block.clear()
	}
}

// bar draws a share of what is to be done.
func bar(share float64) string {
	done := report.Bar(min(max(share, 0), 1), barWidth)
	return done + strings.Repeat("░", barWidth-len([]rune(done)))
}
