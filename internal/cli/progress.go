//go:build linux

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/textbar"
)

const (
	barWidth   = 24               // width of the progress bar in columns
	plainEvery = 10 * time.Second // interval of progress lines if the output cannot be redrawn
)

// progress shows a command's progress: lines redrawn on a terminal, or an occasional line
// elsewhere.
type progress struct {
	out  io.Writer
	area *redrawArea // nil if the output cannot be redrawn

	mu      sync.Mutex
	table   []string // above the bar
	printed time.Time
}

func newProgress(w io.Writer) *progress {
	return &progress{out: w, area: newRedrawArea(w), printed: time.Now()}
}

// show draws lines on a terminal. Elsewhere it prints plain if plainEvery has passed.
func (p *progress) show(lines []string, plain string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.area != nil {
		p.area.draw(lines)
		return
	}
	if now := time.Now(); now.Sub(p.printed) >= plainEvery {
		p.printed = now
		fmt.Fprintln(p.out, plain)
	}
}

func (p *progress) set(share float64, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.mu.Lock()
	table := p.table
	p.mu.Unlock()
	p.show(append(slices.Clip(table), bar(share)+" "+text), text)
}

func (p *progress) above(lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table = lines
}

func (p *progress) print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	if p.area != nil {
		p.area.above(line)
		return
	}
	fmt.Fprintln(p.out, line)
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.area != nil {
		p.area.clear()
	}
}

func bar(share float64) string {
	done := textbar.Bar(min(max(share, 0), 1), barWidth)
	return done + strings.Repeat("░", barWidth-len([]rune(done)))
}
