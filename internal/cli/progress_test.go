package cli

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
)

// Only a terminal that can move its cursor shows a bar.
func TestOnlyATerminalShowsABar(t *testing.T) {
	terminal := pseudoTerminal(t)
	for name, want := range map[string]bool{"xterm": true, "": true, "dumb": false} {
		t.Setenv("TERM", name)
		if got := canRedraw(terminal); got != want {
			t.Errorf("TERM=%s: %v", name, got)
		}
	}
	if canRedraw(new(bytes.Buffer)) {
		t.Error("a buffer passes for a terminal")
	}
	t.Setenv("TERM", "dumb")
	p := newProgress(terminal, time.Second)
	p.set(time.Millisecond, "x")
	p.end()
	if p.area != nil {
		t.Error("a bar on a dumb terminal")
	}
}

// The lines of a table stay above the bar.
func TestTableIsAboveTheBar(t *testing.T) {
	t.Setenv("TERM", "xterm")
	p := newProgress(pseudoTerminal(t), time.Second)
	p.above([]string{"after 3 blocks", "tare 0.5"})
	for range 2 {
		p.set(time.Millisecond, "block 4")
	}
	if got := p.area.lines; len(got) != 3 || got[1] != "tare 0.5" || !strings.HasSuffix(got[2], " block 4") {
		t.Errorf("%q", got)
	}
}

// pseudoTerminal opens the program's side of a pseudo terminal.
func pseudoTerminal(t *testing.T) *os.File {
	t.Helper()
	terminal, _ := bothSides(t)
	return terminal
}

// bothSides opens a pseudo terminal: the program's side, and the user's.
func bothSides(t *testing.T) (terminal, master *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	testkit.Must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	testkit.Must(t, err)
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, master
}
