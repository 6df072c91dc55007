package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// block is a few lines at the end of a terminal's text that are drawn anew again and again. The
// cursor is never hidden, so that nothing has to be put right if the program is killed.
type block struct {
	out   *os.File
	lines []string // that are on the screen; the cursor is at the end of the last
}

// newBlock returns a block on w; nil where nothing can be drawn anew.
func newBlock(w io.Writer) *block {
	if !canRedraw(w) {
		return nil
	}
	return &block{out: w.(*os.File)}
}

// draw replaces the lines by others. Each is cut to the terminal's width: one that went on in
// the next row could not be found again. All is written at once, and what was there is
// overwritten before the rest is erased, so that nothing flickers.
func (b *block) draw(lines []string) {
	width, height := b.size()
	lines = lines[:min(len(lines), max(1, height-1))]
	shown := make([]string, len(lines))
	var s strings.Builder
	s.WriteString(b.home(width))
	for i, line := range lines {
		shown[i] = cut(line, width-1)
		if i > 0 {
			s.WriteByte('\n')
		}
		s.WriteString(shown[i] + eraseLine)
	}
	s.WriteString(eraseBelow)
	b.lines = shown
	_, _ = io.WriteString(b.out, s.String()) // nobody could be told
}

// What terminals do (ECMA-48: CUU, EL, ED).
const (
	eraseLine  = "\x1b[K"
	eraseBelow = "\x1b[J"
	cursorUp   = "\x1b[%dA"
)

// home moves the cursor to the beginning of the block. If the terminal has become narrower
// since, lines have gone on in further rows.
func (b *block) home(width int) string {
	rows := 0
	for _, line := range b.lines {
		rows += max(1, (len([]rune(line))+width-1)/width)
	}
	if rows < 2 {
		return "\r"
	}
	return "\r" + fmt.Sprintf(cursorUp, rows-1)
}

// above prints a line that stays above the block.
func (b *block) above(line string) {
	lines := b.lines
	b.clear()
	fmt.Fprintln(b.out, line)
	if lines != nil {
		b.draw(lines)
	}
}

// clear takes the block away.
func (b *block) clear() {
	if b.lines == nil {
		return
	}
	width, _ := b.size()
	_, _ = io.WriteString(b.out, b.home(width)+eraseBelow)
	b.lines = nil
}

// size returns the terminal's columns and rows; what is usual if it does not know.
func (b *block) size() (width, height int) {
	width, height, err := term.GetSize(int(b.out.Fd()))
	if err != nil || width < 2 || height < 2 {
		return 80, 24
	}
	return width, height
}

// cut returns at most the first n characters, none of which could move the cursor.
func cut(line string, n int) string {
	runes := []rune(line)
	for i, c := range runes {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			runes[i] = '?'
		}
	}
	return string(runes[:min(len(runes), n)])
}
