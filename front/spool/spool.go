// Package spool writes lines to what may block, fill or break, without making anybody wait for long:
// a log's file, a pipe, a terminal. A bounded queue takes the lines and one goroutine
// writes them.
//
// While the queue is full Write waits, so that lines that come faster than they are written slow their writers down
// instead of being lost. The wait is bounded (Config.Patience). If nothing at all is written meanwhile the spool is
// stalled: lines are dropped at once from then on, until a write succeeds. Dropped lines are counted; the next line that can be written
// says how many.
package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Limits.
const (
	// DefaultLimit is how many bytes wait at most. As many again may be on their way out.
	DefaultLimit = 1 << 20
	// retryAfter is how long a write that failed is left alone.
	retryAfter = 250 * time.Millisecond
	// sayEvery is how often at most trouble is told of, and its end.
	sayEvery = 10 * time.Second
	// hurryAt is how many bytes end the wait for others.
	hurryAt = 64 << 10
)

var (
	errSlow   = errors.New("nothing is taken from it, or too slowly")
	errClosed = errors.New("spool: closed")
)

// Config says how lines are written. The zero value will do.
type Config struct {
	// Gather is the time between two writes: the lines of that time are written together. A line that comes later than that
	// after the last write is written at once, and so are lines that take much of the Limit.
	Gather time.Duration

	// Limit is how many bytes wait at most; 0 is DefaultLimit. A line that is longer waits alone.
	Limit int

	// Patience is how long Write waits for room at most; 0 drops lines at once.
	Patience time.Duration

	// Open opens what is written to anew, for Reopen; nil if that cannot be.
	Open func() (io.WriteCloser, error)

	// Lost makes the line that says how many lines were dropped, and why; nil for none.
	Lost func(lines int, why error) []byte

	// Say is told of trouble and of its end, in a few words; nil for nobody. It must not wait. It may be
	// called by whoever writes.
	Report func(text string)
}

// A Spool is an io.Writer of lines. Make one with New, and Close it.
type Spool struct {
	config Config
	wake   chan struct{}   // holds a token when lines wait
	hurry  chan struct{}   // holds a token when many do
	orders chan chan error // reopen, and answer there
	stop   chan struct{}   // closed by Close
	done   chan struct{}   // closed when the writer has ended

	mu      sync.Mutex
	out     io.WriteCloser // changed by the writer only
	waiting []byte         // whole lines
	lost    int            // lines, since the last note of them
	cause   error          // why the first of these was
	why     error          // of the last write; nil if it was well
	closed  bool
	queue   []*waiter // for room, the one that has waited longest first
	written int64     // writes that went well
	stalled bool      // nobody waits for room until a write goes well
	trouble bool      // was told of, and its end was not
	told    time.Time // when trouble was told of last
	untold  int       // lost lines that were noted and not told of

	w writer
}

// writer is what the goroutine alone uses.
type writer struct {
	last    time.Time // when the last write ended
	pending []byte    // what is being written, or could not be
	written int       // of pending
	notes   int       // lines that pending says were lost
}

// New starts to write to out, which the Spool closes.
func New(out io.WriteCloser, config Config) *Spool {
	if config.Limit <= 0 {
		config.Limit = DefaultLimit
	}
	if config.Report == nil {
		config.Report = func(string) {}
	}
	s := &Spool{
		config: config, out: out,
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), orders: make(chan chan error), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run()
	return s
}

// waiter is a Write that waits for room.
type waiter struct {
	lines    []byte
	accepted bool          // its lines wait to be written
	done     chan struct{} // closed when they do, or there is no use in waiting
}

// Write takes a line, which ends with a newline, or several. It waits for room as long as Config.Patience says, and never fails: lines for
// which there is no room are dropped.
func (s *Spool) Write(lines []byte) (int, error) {
	s.mu.Lock()
	if s.add(lines) || s.await(lines) {
		s.mu.Unlock()
		return len(lines), nil
	}
	if s.lost == 0 {
		s.cause = s.reason()
	}
	s.lost += bytes.Count(lines, []byte("\n"))
	why, tell := s.cause, s.troubled()
	s.mu.Unlock()
	if tell {
		s.config.Report("lines are dropped: " + why.Error())
	}
	return len(lines), nil
}

// add has lines wait to be written, if there is room and nobody was there before. The caller holds the lock.
func (s *Spool) add(lines []byte) bool {
	if s.closed || len(s.queue) > 0 || !s.hasRoom(len(lines)) {
		return false
	}
	s.append(lines)
	return true
}

// append has lines wait to be written. The caller holds the lock.
func (s *Spool) append(lines []byte) {
	if len(s.waiting) == 0 {
		give(s.wake)
	}
	if s.waiting = append(s.waiting, lines...); len(s.waiting) >= min(hurryAt, s.config.Limit/4) {
		give(s.hurry)
	}
}

// give gives a token, if there is none.
func give(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// hasRoom reports whether n bytes more may wait. The caller holds the lock.
func (s *Spool) hasRoom(n int) bool {
	return len(s.waiting) == 0 || len(s.waiting)+n <= s.config.Limit
}

// await waits in the queue until there is room for lines, and reports whether they wait to be written. The caller holds the lock, which
// is released meanwhile.
func (s *Spool) await(lines []byte) bool {
	if s.closed || s.stalled || s.config.Patience <= 0 {
		return false
	}
	w, before := &waiter{lines: lines, done: make(chan struct{})}, s.written
	s.queue = append(s.queue, w)
	s.mu.Unlock()
	timer := time.NewTimer(s.config.Patience)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
	case <-s.stop:
	}
	s.mu.Lock()
	if i := slices.Index(s.queue, w); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		if !s.closed && s.written == before {
			s.stall()
		}
	}
	return w.accepted
}

// admit accepts the lines of those that wait, as far as there is room. The caller holds the lock.
func (s *Spool) admit() {
	n := 0
	for ; n < len(s.queue) && s.hasRoom(len(s.queue[n].lines)); n++ {
		w := s.queue[n]
		s.append(w.lines)
		w.accepted = true
		close(w.done)
	}
	s.queue = slices.Delete(s.queue, 0, n)
}

// stall ends the waiting of all, until a write succeeds. The caller holds the lock.
func (s *Spool) stall() {
	s.stalled = true
	for _, w := range s.queue {
		close(w.done)
	}
	s.queue = nil
}

// reason is why there is no room.
func (s *Spool) reason() error {
	switch {
	case s.why != nil:
		return s.why
	case s.closed:
		return errClosed
	}
	return errSlow
}

// troubled reports whether to tell of trouble that has come. The caller holds the lock.
func (s *Spool) troubled() bool {
	if s.trouble || s.closed || time.Since(s.told) < sayEvery {
		return false
	}
	s.trouble, s.told = true, time.Now()
	return true
}

// Lost is how many lines were dropped of which no line has told yet.
func (s *Spool) Lost() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Reopen opens what is written to anew: the way to rotate a log is to rename its file and to call
// this. Lines that wait are written to the old one, and no line is lost. If it fails the old one is kept. It
// waits until that is done, or ctx ends.
func (s *Spool) Reopen(ctx context.Context) error {
	if s.config.Open == nil {
		return errors.New("spool: it cannot be opened again")
	}
	answer := make(chan error, 1)
	select {
	case s.orders <- answer:
	case <-s.done:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close writes what waits, if it can be written before ctx ends, and closes what was written to. The error says
// how many lines were lost. Lines that come later are dropped.
func (s *Spool) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	s.closed = true
	s.mu.Unlock()
	close(s.stop) // which those that wait for room see, too
	select {
	case <-s.done:
	case <-ctx.Done():
		// The writer may wait in a write for ever. Where it can be woken this wakes it; a terminal or a pipe
		// that was inherited cannot.
		s.mu.Lock()
		defer s.mu.Unlock()
		s.out.Close()
		return fmt.Errorf("spool: not all lines were written: %w", ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost > 0 {
		return fmt.Errorf("spool: %d lines were lost: %w", s.lost, s.cause)
	}
	return nil
}
