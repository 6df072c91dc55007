//go:build linux

package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/tarehq/tare/internal/printable"
	"github.com/tarehq/tare/internal/textbar"
)

// redrawArea is a few lines at the end of a terminal's text that are redrawn repeatedly. It never
// hides the cursor, so nothing has to be restored if the program is killed.
type redrawArea struct {
	out   *os.File
	lines []string // on the screen; the cursor is at the end of the last
}

// newRedrawArea returns an area on w, or nil if w cannot be redrawn.
func newRedrawArea(w io.Writer) *redrawArea {
	if !canRedraw(w) {
		return nil
	}
	return &redrawArea{out: w.(*os.File)}
}

// draw replaces the lines. It cuts each to the terminal's width, because the position of wrapped
// lines is unknown. To avoid flicker, it writes all at once, and overwrites the old lines before it
// erases the rest.
func (a *redrawArea) draw(lines []string) {
	width, height := a.size()
	lines = lines[:min(len(lines), max(1, height-1))]
	shown := make([]string, len(lines))
	var s strings.Builder
	s.WriteString(a.home(width))
	for i, line := range lines {
		shown[i] = cut(line, width-1)
		if i > 0 {
			s.WriteByte('\n')
		}
		s.WriteString(shown[i] + eraseLine)
	}
	s.WriteString(eraseBelow)
	a.lines = shown
	_, _ = io.WriteString(a.out, s.String()) // the terminal is the only place to report to
}

// Terminal control sequences (ECMA-48: CUU, EL, ED).
const (
	eraseLine  = "\x1b[K"
	eraseBelow = "\x1b[J"
	cursorUp   = "\x1b[%dA"
)

// home returns the sequence that moves the cursor to the start of the area. If the terminal has
// become narrower, the lines now take more rows.
func (a *redrawArea) home(width int) string {
	rows := 0
	for _, line := range a.lines {
		rows += max(1, (len([]rune(line))+width-1)/width)
	}
	if rows < 2 {
		return "\r"
	}
	return "\r" + fmt.Sprintf(cursorUp, rows-1)
}

// above prints a line above the area, broken at words.
func (a *redrawArea) above(line string) {
	lines := a.lines
	a.clear()
	width, _ := a.size()
	fmt.Fprintln(a.out, textbar.Wrap(line, width, ""))
	if lines != nil {
		a.draw(lines)
	}
}

func (a *redrawArea) clear() {
	if a.lines == nil {
		return
	}
	width, _ := a.size()
	_, _ = io.WriteString(a.out, a.home(width)+eraseBelow)
	a.lines = nil
}

// size returns the terminal's columns and rows, or 80 and 24 if they are unknown.
func (a *redrawArea) size() (width, height int) {
	width, height, err := term.GetSize(int(a.out.Fd()))
	if err != nil || width < 2 || height < 2 {
		return 80, 24
	}
	return width, height
}

// cut returns the first n characters of a printable form of a line.
func cut(line string, n int) string {
	runes := []rune(printable.Text(line, ""))
	return string(runes[:min(len(runes), n)])
}
