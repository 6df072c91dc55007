package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// Only a terminal that can move its cursor shows a bar.
func TestOnlyATerminalShowsABar(t *testing.T) {
	terminal, _ := pseudoTerminal(t)
	for name, want := range map[string]bool{"xterm": true, "": true, "dumb": false} {
		t.Setenv("TERM", name)
		testkit.Equal(t, canRedraw(terminal), want, "TERM=", name)
	}
	if canRedraw(new(bytes.Buffer)) {
		t.Error("a buffer passes for a terminal")
	}
	t.Setenv("TERM", "dumb")
	p := newProgress(terminal)
	p.set(0.001, "x")
	p.end()
	if p.area != nil {
		t.Error("a bar on a dumb terminal")
	}
}

func TestTableIsAboveTheBar(t *testing.T) {
	t.Setenv("TERM", "xterm")
	terminal, _ := pseudoTerminal(t)
	p := newProgress(terminal)
	p.above([]string{"after 3 blocks", "tare 0.5"})
	for range 2 {
		p.set(0.001, "block 4")
	}
	if got := p.area.lines; len(got) != 3 || got[1] != "tare 0.5" || !strings.HasSuffix(got[2], " block 4") {
		t.Errorf("%q", got)
	}
}

// pseudoTerminal opens a pseudo terminal: the program's side, and the user's.
func pseudoTerminal(t *testing.T) (terminal, master *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	testkit.Must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n := testkit.Value(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))(t)
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, master
}

func TestLiveShowsTheLastSeconds(t *testing.T) {
	plan := &load.Plan{Connections: 8, Warmup: 2 * time.Second, Duration: 10 * time.Second}
	var out bytes.Buffer
	l := newLive(newProgress(&out), plan)
	tell := plan.Trace
	tell.Progress(load.Progress{Elapsed: time.Second})
	for i := range 3*liveSeconds + 1 {
		n := uint64(i)
		at := time.Duration(i) * time.Second / 10
		tell.Progress(load.Progress{Measuring: true, Elapsed: at, Requests: 100 * n})
		if i%10 == 0 {
			tell.Second(load.Second{Requests: 1000, Errors: n / 20,
				Latency: hist.Packed{Count: 1000, P50: time.Millisecond, P99: 2 * time.Millisecond}})
		}
	}
	// The sparklines show 13 seconds.
	want := strings.Join([]string{
		"████████████████████████  12s of 10s", "requests/s  1,000      █████████████",
		"p50         1ms        █████████████",
		"p99         2ms        █████████████", "errors      none",
	}, "\n")
	testkit.Equal(t, strings.Join(l.lines(), "\n"), want)
	testkit.Equal(t, l.plain(), "12s of 10s  1,000 requests/s  p50 1ms  p99 2ms  0 errors")
	tell.Progress(load.Progress{Measuring: true, Elapsed: 13 * time.Second, Requests: 13000,
		Errors: load.Errors{Read: 4, Status: 3, First: "read: oh"}})
	want = "errors      7          ▁▁▂▂▃▃▅▅▆▆▇▇█\n            read 4  status 3\nfirst       read: oh"
	if got := strings.Join(l.lines(), "\n"); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
	tell.Second(load.Second{Errors: 1})
	tell.Progress(load.Progress{Measuring: true, Elapsed: 14 * time.Second,
		Errors: load.Errors{Read: 5, First: "read: " + strings.Repeat("a word ", 11)}})
	want = "p50         none       █████████████▁\np99         none       █████████████▁\nerrors "
	if got := strings.Join(l.lines(), "\n"); !strings.Contains(got, want) ||
		!strings.Contains(got, "first       read: a word a word a word a word a word a word a word a word a\n            word a word") {
		t.Errorf("without responses in a second, and a long error, got\n%s", got)
	}
	testkit.Equal(t, out.String(), "", "no terminal, and no time for a line")
	l.display.printed = time.Now().Add(-plainEvery)
	l.display.show(l.lines(), l.plain())
	if got := out.String(); !strings.HasPrefix(got, "14s of 10s ") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}

// Without a duration, progress is the share of requests.
func TestLiveShowsTheShareOfRequests(t *testing.T) {
	l := &live{plan: &load.Plan{Requests: 50000}}
	l.now = load.Progress{Measuring: true, Elapsed: 1500 * time.Millisecond, Requests: 12500}
	if share, text := l.done(); share != 0.25 || text != "12,500 of 50,000 requests, 1.5s" {
		t.Errorf("%v, %s", share, text)
	}
	l.plan.Duration = 2 * time.Second
	if share, text := l.done(); share != 0.75 || text != "12,500 of 50,000 requests, 1.5s of 2s" {
		t.Errorf("%v, %s", share, text)
	}
}

// screen simulates the terminal functions that redrawArea uses.
type screen struct {
	in    *bufio.Reader
	rows  [][]rune
	y, x  int
	width int
}

// read processes output up to a mark, which is not drawn.
func (s *screen) read(t *testing.T, mark rune) {
	t.Helper()
	for {
		c, _, err := s.in.ReadRune()
		testkit.Must(t, err)
		if c == mark {
			return
		}
		for s.y >= len(s.rows) {
			s.rows = append(s.rows, nil)
		}
		switch c {
		case '\r':
			s.x = 0
		case '\n':
			s.y++
		case '\x1b':
			s.control(t)
		default:
			if s.x == s.width {
				t.Fatalf("a line goes on in the next row: %q", string(s.rows[s.y]))
			}
			row := s.rows[s.y]
			row = append(row, slices.Repeat([]rune{' '}, max(0, s.x+1-len(row)))...)
			row[s.x] = c
			s.rows[s.y] = row
			s.x++
		}
	}
}

func (s *screen) control(t *testing.T) {
	t.Helper()
	var n int
	text, err := s.in.ReadString('[')
	for err == nil && text == "[" {
		var c byte
		if c, err = s.in.ReadByte(); err != nil {
			break
		}
		switch {
		case c >= '0' && c <= '9':
			n = 10*n + int(c-'0')
			continue
		case c == 'A':
			s.y -= n
		case c == 'K':
			s.rows[s.y] = s.rows[s.y][:min(s.x, len(s.rows[s.y]))]
		case c == 'J':
			s.rows[s.y] = s.rows[s.y][:min(s.x, len(s.rows[s.y]))]
			s.rows = s.rows[:s.y+1]
		default:
			t.Fatalf("the terminal receives %q", c)
		}
		return
	}
	t.Fatalf("%q, %v", text, err)
}

func (s *screen) text() string {
	var lines []string
	for _, row := range s.rows {
		lines = append(lines, string(row))
	}
	return strings.Join(lines, "|")
}

// Lines are replaced whatever the terminal's size, and nothing remains at the end.
func TestRedrawAreaReplacesItsLines(t *testing.T) {
	t.Setenv("TERM", "xterm")
	const mark = '§'
	terminal, master := pseudoTerminal(t)
	testkit.Must(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 5, Col: 20}))
	b := newRedrawArea(terminal)
	s := &screen{in: bufio.NewReader(master), width: 20}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { fmt.Fprintln(terminal, "before") }, "before"},
		{func() { b.draw([]string{"one", "two", "three"}) }, "before|one|two|three"},
		{func() { b.draw([]string{"1", "a line of more than twenty", "3"}) }, "before|1|a line of more than|3"},
		{func() { b.draw([]string{"only", "esc\x1b[2J\nape"}) }, "before|only|esc\\x1b[2J\\nape"},
		{func() { b.above("stays and breaks at words") }, "before|stays and breaks at|words|only|esc\\x1b[2J\\nape"},
		{func() { b.draw([]string{"1", "2", "3", "4", "5", "6"}) }, "before|stays and breaks at|words|1|2|3|4"},
		{b.clear, "before|stays and breaks at|words|"},
		{b.clear, "before|stays and breaks at|words|"},
		{func() { b.above("also") }, "before|stays and breaks at|words|also"},
	} {
		step.do()
		fmt.Fprint(terminal, string(mark))
		s.read(t, mark)
		testkit.Equal(t, strings.TrimRight(s.text(), "|"), strings.TrimRight(step.want, "|"))
	}
}

// A terminal that has become narrower wraps lines over several rows.
func TestRedrawAreaOnANarrowedTerminal(t *testing.T) {
	b := &redrawArea{lines: []string{"0123456789", "01234567890", ""}}
	for width, want := range map[int]string{20: "\r\x1b[2A", 10: "\r\x1b[3A", 5: "\r\x1b[5A"} {
		testkit.Equal(t, b.home(width), want, width, "columns")
	}
	b.lines = nil
	testkit.Equal(t, b.home(5), "\r", "without lines")
}

func TestPaceIsParsed(t *testing.T) {
	for text, want := range map[string][]load.Step{
		"1000":      {{From: 1000, To: 1000}},
		"2.5k":      {{From: 2500, To: 2500}},
		"0:1000/1m": {{From: 0, To: 1000, For: time.Minute}},
		"500/10s,0/1s,1k:1/2s": {{From: 500, To: 500, For: 10 * time.Second}, {For: time.Second},
			{From: 1000, To: 1, For: 2 * time.Second}},
	} {
		if got, err := parsePace(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "NaN", "1:2", "1,2", "1/", "1/0s", "1/-1s", "1/x", ":", "1/1s,"} {
		testkit.Fails(parsePace(text))(t, "", text)
	}
}
