package spool_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/internal/spool"
)

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
		if n := len(out.String()); n != 200*len(long) || time.Since(start) != 0 {
			t.Errorf("%d bytes after %v, want %d", n, time.Since(start), 200*len(long))
		}
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
	if out.String() != want+want+want {
		t.Errorf("%d bytes", len(out.String()))
	}
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
					if d := time.Since(start); d > time.Second {
						t.Errorf("a caller waited for %v", d)
					}
				}
			})
		}
		all.Wait()
		closeSpool(t, s)
		if n := bytes.Count([]byte(out.String()), []byte("\n")); n != writers*each {
			t.Errorf("%d lines, want %d", n, writers*each)
		}
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
		if d := time.Since(start); d != time.Second {
			t.Errorf("callers waited for %v, want a second", d)
		}
		for range 100 {
			fmt.Fprint(s, "lost\n")
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("later callers waited until %v", d)
		}
		out.set(func() { out.gate = nil })
		close(gate)
		synctest.Wait()
		fmt.Fprint(s, "after\n")
		closeSpool(t, s)
		if want := "first\nsecond\nlost 103: the output accepts nothing, or too little\nafter\n"; out.String() != want {
			t.Errorf("got %q, want %q", out, want)
		}
	})
}

// Close ends the waits for room.
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
		if d := time.Since(start); d != 0 {
			t.Errorf("after %v", d)
		}
	})
}
