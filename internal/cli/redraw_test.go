package cli

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
)

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

func resize(t *testing.T, terminal *os.File, columns, rows uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatal(err)
	}
}

// Lines are replaced whatever the terminal's size, and nothing remains at the end.
func TestRedrawAreaReplacesItsLines(t *testing.T) {
	t.Setenv("TERM", "xterm")
	const mark = '§'
	terminal, master := bothSides(t)
	resize(t, terminal, 20, 5)
	b := newRedrawArea(terminal)
	s := &screen{in: bufio.NewReader(master), width: 20}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { fmt.Fprintln(terminal, "before") }, "before"},
		{func() { b.draw([]string{"one", "two", "three"}) }, "before|one|two|three"},
		{func() { b.draw([]string{"1", "a line of more than twenty", "3"}) }, "before|1|a line of more than|3"},
		{func() { b.draw([]string{"only", "esc\x1b[2J\nape"}) }, "before|only|esc?[2J?ape"},
		{func() { b.above("stays and breaks at words") }, "before|stays and breaks at|words|only|esc?[2J?ape"},
		{func() { b.draw([]string{"1", "2", "3", "4", "5", "6"}) }, "before|stays and breaks at|words|1|2|3|4"},
		{b.clear, "before|stays and breaks at|words|"},
		{b.clear, "before|stays and breaks at|words|"},
		{func() { b.above("also") }, "before|stays and breaks at|words|also"},
	} {
		step.do()
		fmt.Fprint(terminal, string(mark))
		s.read(t, mark)
		if got := s.text(); strings.TrimRight(got, "|") != strings.TrimRight(step.want, "|") {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
}

// A terminal that has become narrower wraps lines over several rows.
func TestRedrawAreaOnANarrowedTerminal(t *testing.T) {
	b := &redrawArea{lines: []string{"0123456789", "01234567890", ""}}
	for width, want := range map[int]string{20: "\r\x1b[2A", 10: "\r\x1b[3A", 5: "\r\x1b[5A"} {
		if got := b.home(width); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	b.lines = nil
	if got := b.home(5); got != "\r" {
		t.Errorf("without lines: %q", got)
	}
}
