//go:build linux

package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/textbar"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/report"
)

const (
	displayPrecision = 100 * time.Millisecond // precision of displayed times
	liveSeconds      = 40                     // number of recent seconds shown
)

// live shows a run of the generator while it lasts. Only one goroutine uses it.
type live struct {
	display *progress
	plan    *load.Plan
	now     load.Progress
	recent  []load.Progress // those of about the last second, oldest first
	seconds []load.Second   // at most liveSeconds
}

// newLive returns a display for the runs of a Plan, whose Trace it sets.
func newLive(p *progress, plan *load.Plan) *live {
	l := &live{display: p, plan: plan}
	plan.Trace = &load.Trace{Progress: l.onProgress, Second: l.onSecond}
	l.display.show([]string{fmt.Sprintf("connecting: %d", plan.Connections)}, "")
	return l
}

func (l *live) onProgress(g load.Progress) {
	if g.Measuring != l.now.Measuring {
		l.recent = nil
	}
	l.now = g
	l.recent = append(l.recent, g)
	for g.Elapsed-l.recent[0].Elapsed > time.Second {
		l.recent = l.recent[1:]
	}
	if !g.Measuring {
		text := fmt.Sprintf("warming up, %s of %s", g.Elapsed.Round(displayPrecision), l.plan.Warmup)
		l.display.show([]string{bar(float64(g.Elapsed)/float64(max(l.plan.Warmup, 1))) + "  " + text}, text)
		return
	}
	l.display.show(l.lines(), l.plain())
}

func (l *live) onSecond(s load.Second) {
	if len(l.seconds) == liveSeconds {
		l.seconds = append(l.seconds[:0], l.seconds[1:]...)
	}
	l.seconds = append(l.seconds, s)
}

func (l *live) rate() float64 {
	first, elapsed := load.Progress{}, l.now.Elapsed
	if len(l.recent) > 1 {
		first = l.recent[0]
		elapsed -= first.Elapsed
	}
	if elapsed <= 0 {
		return 0
	}
	return float64(l.now.Requests-min(first.Requests, l.now.Requests)) / elapsed.Seconds()
}

func (l *live) lines() []string {
	share, text := l.done()
	lines := []string{
		bar(share) + "  " + text,
		l.line("requests/s", report.Count(l.rate()), func(s *load.Second) float64 { return float64(s.Requests) }),
	}
	if n := len(l.seconds); n > 0 {
		p50, p99 := "none", "none" // without a response in that second
		if now := &l.seconds[n-1].Latency; now.Count > 0 {
			p50, p99 = report.Duration(now.P50), report.Duration(now.P99)
		}
		lines = append(lines,
			l.line("p50", p50, func(s *load.Second) float64 { return float64(s.Latency.P50) }),
			l.line("p99", p99, func(s *load.Second) float64 { return float64(s.Latency.P99) }))
	}
	if l.now.Errors.Total() == 0 {
		return append(lines, fmt.Sprintf("%-10s  none", "errors"))
	}
	lines = append(lines,
		l.line("errors", report.Count(float64(l.now.Errors.Total())),
			func(s *load.Second) float64 { return float64(s.Errors) }),
		fmt.Sprintf("%-10s  %s", "", report.Errors(&l.now.Errors)))
	if first := l.now.Errors.First; first != "" {
		const indent = "            "
		text := textbar.Wrap(first, textbar.Columns-1-len(indent), indent)
		lines = append(lines, strings.Split(fmt.Sprintf("%-10s  %s", "first", text), "\n")...)
	}
	return lines
}

func (l *live) line(name, now string, of func(*load.Second) float64) string {
	values := make([]float64, len(l.seconds))
	for i := range l.seconds {
		values[i] = of(&l.seconds[i])
	}
	return fmt.Sprintf("%-10s  %-9s  %s", name, now, textbar.Sparkline(values, liveSeconds))
}

// done returns the completed share of the run: of its duration, or of its requests if that is more.
func (l *live) done() (share float64, text string) {
	elapsed := l.now.Elapsed.Round(displayPrecision)
	if l.plan.Duration > 0 {
		share = float64(l.now.Elapsed) / float64(l.plan.Duration)
		text = fmt.Sprintf("%s of %s", elapsed, l.plan.Duration)
	} else {
		text = elapsed.String()
	}
	if n := l.plan.Requests; n > 0 {
		share = max(share, float64(l.now.Requests)/float64(n))
		text = fmt.Sprintf("%s of %s requests, %s", report.Count(float64(l.now.Requests)), report.Count(float64(n)),
			text)
	}
	return share, text
}

// plain returns the line for output that cannot be redrawn.
func (l *live) plain() string {
	_, text := l.done()
	text += fmt.Sprintf("  %s requests/s", report.Count(l.rate()))
	if n := len(l.seconds); n > 0 && l.seconds[n-1].Latency.Count > 0 {
		now := &l.seconds[n-1].Latency
		text += fmt.Sprintf("  p50 %s  p99 %s", report.Duration(now.P50), report.Duration(now.P99))
	}
	return text + fmt.Sprintf("  %d errors", l.now.Errors.Total())
}
