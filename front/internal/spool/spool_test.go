package spool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/internal/spool"
	"github.com/tarehq/tare/internal/testkit"
)

const patience = time.Minute

// sink is a file that a test can block, fill and break.
type sink struct {
	mu     sync.Mutex
	text   bytes.Buffer
	room   int // bytes until it is full; -1 means no limit
	broken error
	gate   chan struct{} // if not nil, each write receives from it
	inside chan struct{} // receives when a write begins
	closed int
}

func newSink() *sink { return &sink{room: -1, inside: make(chan struct{}, 1000)} }

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	s.inside <- struct{}{}
	if gate != nil {
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return 0, s.broken
	}
	if s.room >= 0 && len(p) > s.room {
		n, _ := s.text.Write(p[:s.room])
		s.room = 0
		return n, errFull
	}
	if s.room >= 0 {
		s.room -= len(p)
	}
	return s.text.Write(p)
}

func (s *sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

func (s *sink) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

var errFull = errors.New("disk full")

// reports are the reports of a spool.
type reports chan string

func (c reports) add(text string) { c <- text }

func (c reports) want(t *testing.T, text string) {
	t.Helper()
	testkit.Equal(t, testkit.Receive(t, c, "the report", text), text, "the report")
}

func lost(n int, why error) []byte { return fmt.Appendf(nil, "lost %d: %v\n", n, why) }

func closeSpool(t *testing.T, s *spool.Spool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	testkit.Check(t, s.Close(ctx))
}

func TestLinesKeepTheirOrder(t *testing.T) {
	out := newSink()
	s := spool.New(out, spool.Config{})
	want := ""
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		want += line
		testkit.Equal(t, testkit.Value(s.Write([]byte(line)))(t), len(line))
	}
	closeSpool(t, s)
	testkit.Equal(t, out.String(), want)
	testkit.Equal(t, out.closed, 1)
	if _, err := s.Write([]byte("late\n")); err != nil || s.Lost() != 1 {
		t.Errorf("%d lost, %v", s.Lost(), err)
	}
	testkit.Error(t, s.Close(t.Context()), "", "second Close")
}

// A line is written at once if there was no other for a while. Lines soon after it are written
// together.
func TestLinesAreGathered(t *testing.T) {
	out := newSink()
	s := spool.New(out, spool.Config{Gather: time.Hour})
	fmt.Fprintln(s, "line")
	<-out.inside
	for range 10 {
		fmt.Fprintln(s, "line")
	}
	closeSpool(t, s) // does not wait for the hour
	testkit.Equal(t, len(out.inside), 1, "further writes")
	testkit.Equal(t, strings.Count(out.String(), "line\n"), 11, "lines")
}

// Without Patience a Write never waits: lines without room are dropped, and the next line reports
// them.
func TestBlockedOutputDropsLines(t *testing.T) {
	out, reported := newSink(), make(reports, 10)
	out.gate = make(chan struct{})
	s := spool.New(out, spool.Config{Limit: 20, Lost: lost, Report: reported.add})
	fmt.Fprint(s, "first\n")
	<-out.inside // and blocked
	fmt.Fprint(s, "second\n", "third\n")
	fmt.Fprint(s, "0123456789\n0123456789\n", "fourth\n")
	fmt.Fprint(s, "too much\n")
	reported.want(t, "dropping lines: the output accepts nothing, or too little")
	testkit.Equal(t, s.Lost(), 4, "lost lines")
	close(out.gate)
	reported.want(t, "writing lines again; 4 were lost")
	fmt.Fprint(s, "after\n")
	closeSpool(t, s)
	testkit.Equal(t, out.String(), "first\nsecond\nthird\nlost 4: the output accepts nothing, or too little\nafter\n")
}

// A full disk loses no line while there is room in memory, and never a part of one.
func TestFullDiskLosesNoLine(t *testing.T) {
	out, reported := newSink(), make(reports, 10)
	out.room = 8
	s := spool.New(out, spool.Config{Report: reported.add})
	fmt.Fprint(s, "first\n")
	<-out.inside
	fmt.Fprint(s, "second\n")
	reported.want(t, "disk full; lines wait, and are dropped when the queue is full")
	fmt.Fprint(s, "third\n")
	out.set(func() { out.room = -1 })
	reported.want(t, "writing lines again; 0 were lost")
	closeSpool(t, s)
	testkit.Equal(t, out.String(), "first\nsecond\nthird\n")
}

func TestCloseReportsLostLines(t *testing.T) {
	out := newSink()
	out.broken = io.ErrClosedPipe
	s := spool.New(out, spool.Config{})
	fmt.Fprint(s, "one\n", "two\n")
	err := s.Close(t.Context())
	testkit.Is(t, err, io.ErrClosedPipe)
	testkit.Error(t, err, "2 lines were lost")
}

// Close does not wait for a blocked output after ctx ends.
func TestCloseDoesNotWaitForBlockedOutput(t *testing.T) {
	out := newSink()
	out.gate = make(chan struct{})
	s := spool.New(out, spool.Config{})
	fmt.Fprint(s, "line\n")
	<-out.inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.Error(t, s.Close(ctx), "context canceled")
	close(out.gate)
}

// Around Reopen, each line is complete in the old file or the new one. If Reopen fails, lines stay
// in the old file.
func TestReopenKeepsLinesWhole(t *testing.T) {
	first, second := newSink(), newSink()
	first.room = 9 // "one " and a part of the next line
	reported := make(reports, 10)
	var fail error
	s := spool.New(first, spool.Config{Report: reported.add, Gather: time.Hour,
		Open: func() (io.WriteCloser, error) { return second, fail }})
	fmt.Fprint(s, "one\n", "two or three\n")
	fail = errors.New("no such folder")
	testkit.Error(t, s.Reopen(t.Context()), fail.Error())
	reported.want(t, "disk full; lines wait, and are dropped when the queue is full")
	fail = nil
	testkit.Must(t, s.Reopen(t.Context()))
	fmt.Fprint(s, "four\n")
	closeSpool(t, s)
	testkit.Equal(t, first.String(), "one\ntwo o")
	testkit.Equal(t, second.String(), "two or three\nfour\n")
	testkit.Equal(t, first.closed, 1)
	testkit.Equal(t, second.closed, 1)
	testkit.Error(t, s.Reopen(t.Context()), "", "Reopen after Close")
}

// Reopen returns when its context ends. A write that blocks then keeps its output; an Open that blocks
// goes on.
func TestReopenEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, opening := newSink(), newSink(), make(chan struct{})
		first.gate = make(chan struct{})
		s := spool.New(first, spool.Config{Open: func() (io.WriteCloser, error) { <-opening; return second, nil }})
		reopen := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			testkit.Error(t, s.Reopen(ctx), context.DeadlineExceeded.Error())
		}
		fmt.Fprint(s, "one\n")
		<-first.inside
		reopen()
		close(first.gate)
		fmt.Fprint(s, "two\n")
		synctest.Wait()
		reopen()
		close(opening)
		fmt.Fprint(s, "three\n")
		closeSpool(t, s)
		testkit.Equal(t, first.String(), "one\ntwo\n")
		testkit.Equal(t, second.String(), "three\n")
	})
}

func TestReopenRequiresOpen(t *testing.T) {
	s := spool.New(newSink(), spool.Config{})
	defer closeSpool(t, s)
	testkit.Error(t, s.Reopen(t.Context()), "")
}

// Lines of concurrent callers are complete, and either written or counted.
func TestLinesOfConcurrentWritersAreWhole(t *testing.T) {
	out := newSink()
	out.inside = make(chan struct{}, 100_000)
	counted := 0 // by the spool's goroutine
	s := spool.New(out, spool.Config{Limit: 4096, Lost: func(n int, _ error) []byte { counted += n; return nil }})
	const writers, each = 8, 2000
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				fmt.Fprintf(s, "<%d %d>\n", w, i)
			}
		})
	}
	all.Wait()
	closeSpool(t, s)
	seen := make(map[string]bool)
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "<") || !strings.HasSuffix(line, ">\n") || seen[line] {
			t.Fatalf("%q is incomplete or duplicate", line)
		}
		seen[line] = true
	}
	testkit.Equal(t, len(seen)+int(s.Lost()), writers*each, "lines that are written or lost")
	testkit.Between(t, counted, 0, int(s.Lost()), "lost lines that a line mentions")
}

// Lines that fill much of the queue are written before Gather has passed, and none is lost.
func TestManyLinesAreWrittenEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newSink()
		s := spool.New(out, spool.Config{Gather: time.Hour, Patience: time.Second})
		start := time.Now()
		long := strings.Repeat("x", 100_000) + "\n"
		for range 200 {
			fmt.Fprint(s, long)
		}
		synctest.Wait()
		testkit.Equal(t, len(out.String()), 200*len(long), "bytes")
		testkit.Equal(t, time.Since(start), 0, "the wait")
		closeSpool(t, s)
	})
}

// A line longer than the queue is written, and so is the next one.
func TestLineLongerThanTheQueueIsWritten(t *testing.T) {
	out := newSink()
	s := spool.New(out, spool.Config{Limit: 10, Patience: patience})
	want := strings.Repeat("x", 1000) + "\n"
	for range 3 {
		fmt.Fprint(s, want)
	}
	closeSpool(t, s)
	testkit.Equal(t, out.String(), want+want+want)
}

// slow is a slow disk.
type slow struct{ *sink }

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	return s.sink.Write(p)
}

// A caller that writes faster than the file waits, and no line is lost.
func TestWriteWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newSink()
		out.inside = make(chan struct{}, 1000)
		s := spool.New(slow{out}, spool.Config{Limit: 50, Lost: lost, Patience: time.Second})
		const writers, each = 4, 50
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for i := range each {
					start := time.Now()
					fmt.Fprintf(s, "line %d\n", i)
					testkit.Between(t, time.Since(start), 0, time.Second, "the wait of a caller")
				}
			})
		}
		all.Wait()
		closeSpool(t, s)
		testkit.Equal(t, bytes.Count([]byte(out.String()), []byte("\n")), writers*each, "lines")
	})
}

// A blocked output delays a caller by at most Patience, and only once. When it continues, lines are
// queued again.
func TestStalledSpoolDropsLinesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newSink()
		gate := make(chan struct{})
		out.gate = gate
		s := spool.New(out, spool.Config{Limit: 10, Lost: lost, Patience: time.Second})
		fmt.Fprint(s, "first\n")
		synctest.Wait()
		fmt.Fprint(s, "second\n")
		start := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { fmt.Fprint(s, "lost\n") })
		}
		all.Wait()
		testkit.Equal(t, time.Since(start), time.Second, "the wait of callers")
		for range 100 {
			fmt.Fprint(s, "lost\n")
		}
		testkit.Equal(t, time.Since(start), time.Second, "the end of later callers' waits")
		out.set(func() { out.gate = nil })
		close(gate)
		synctest.Wait()
		fmt.Fprint(s, "after\n")
		closeSpool(t, s)
		testkit.Equal(t, out.String(), "first\nsecond\nlost 103: the output accepts nothing, or too little\nafter\n")
	})
}

func TestCloseEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newSink()
		gate := make(chan struct{})
		out.gate = gate
		s := spool.New(out, spool.Config{Limit: 10, Patience: time.Hour})
		fmt.Fprint(s, "first\n")
		synctest.Wait()
		fmt.Fprint(s, "second\n")
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() { fmt.Fprint(s, "lost\n") })
		synctest.Wait()
		out.set(func() { out.gate = nil })
		all.Go(func() { _ = s.Close(t.Context()) })
		synctest.Wait()
		close(gate)
		all.Wait()
		testkit.Equal(t, time.Since(start), 0, "the wait")
	})
}
