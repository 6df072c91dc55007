// Package spool writes lines to a file, a pipe or a terminal that may block, fill up or fail,
// without blocking its callers for long. A limited queue holds the lines, and one goroutine writes
// them.
//
// A Spool is in one of three states:
//
//	writing   lines fit into the queue: Write returns at once
//	full      Write waits for room, at most Config.Patience
//	stalled   nothing was written during such a wait: lines are dropped at once
//
// A successful write ends the last two. Waiting slows down callers that write faster than the
// output, so that lines are not lost. Dropped lines are counted, and the next line that can be
// written reports their number.
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
	// DefaultLimit is the maximum number of bytes in the queue. As many again may be in the current
	// write.
	DefaultLimit = 1 << 20
	// retryAfter is the time between a failed write and the next attempt.
	retryAfter = 250 * time.Millisecond
	// reportEvery is the minimum time between two reports of trouble.
	reportEvery = 10 * time.Second
	// hurryAt is the number of bytes that ends the wait for other lines.
	hurryAt = 64 << 10
)

var (
	errSlow   = errors.New("the output accepts nothing, or too little")
	errClosed = errors.New("spool: closed")
)

// Config defines how lines are written. The zero value is valid.
type Config struct {
	// Gather is the time between two writes: lines of that time are written together. Two kinds of
	// lines are written at once: those that arrive when the last write is longer ago than Gather,
	// and those that fill much of Limit.
	Gather time.Duration

	// Limit is the maximum number of bytes in the queue; 0 is DefaultLimit. A longer line is
	// accepted by an empty queue.
	Limit int

	// Patience is how long Write waits for room; 0 drops lines at once.
	Patience time.Duration

	// Open opens the output again, for Reopen; nil if that is impossible.
	Open func() (io.WriteCloser, error)

	// Lost returns a line about dropped lines; nil means no such line.
	Lost func(lines int, why error) []byte

	// Report is called when writing fails or stalls, and when it works again. It may be nil. It
	// must not block. Callers of Write may call it.
	Report func(text string)
}

// A Spool is an io.Writer of lines. Make one with New, and call Close.
type Spool struct {
	config Config
	wake   chan struct{}   // contains a token if there are lines
	hurry  chan struct{}   // contains a token if there are many
	orders chan chan error // requests to reopen, with a channel for the result
	stop   chan struct{}   // closed by Close
	done   chan struct{}   // closed when the writer has ended

	mu         sync.Mutex
	out        io.WriteCloser // changed by the writer only
	waiting    []byte         // whole lines
	lost       int            // lines since the last line about lost ones
	allLost    int64
	cause      error // the reason for the first of these
	why        error // the error of the last write, or nil
	closed     bool
	queue      []*waiter // of writes that wait for room, the oldest first
	written    int64     // number of successful writes
	stalled    bool      // no write waits for room until a write succeeds
	trouble    bool      // it was reported, but its end was not
	lastReport time.Time // the time of the last report of trouble
	unreported int       // lost lines that are in the output, but not in a report

	w writer
}

// writer is used by the goroutine only.
type writer struct {
	last      time.Time // when the last write ended
	pending   []byte    // what is being written, or could not be
	written   int       // written part of pending
	mentioned int       // lost lines that pending mentions
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
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), orders: make(chan chan error),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run()
	return s
}

// waiter is a Write that waits for room.
type waiter struct {
	lines    []byte
	accepted bool          // its lines are in the queue
	done     chan struct{} // closed when they are, or when waiting is useless
}

// Write queues one or several lines, each with its newline. It waits for room, up to
// Config.Patience. It never fails: lines without room are dropped.
func (s *Spool) Write(lines []byte) (int, error) {
	s.mu.Lock()
	if s.add(lines) || s.await(lines) {
		s.mu.Unlock()
		return len(lines), nil
	}
	s.drop(bytes.Count(lines, []byte("\n")))
	why, report := s.cause, s.shouldReport()
	s.mu.Unlock()
	if report {
		s.config.Report("dropping lines: " + why.Error())
	}
	return len(lines), nil
}

// add queues lines, if there is room and no other write waits. The caller holds the lock.
func (s *Spool) add(lines []byte) bool {
	if s.closed || len(s.queue) > 0 || !s.hasRoom(len(lines)) {
		return false
	}
	s.append(lines)
	return true
}

// append queues lines. The caller holds the lock.
func (s *Spool) append(lines []byte) {
	if len(s.waiting) == 0 {
		signal(s.wake)
	}
	if s.waiting = append(s.waiting, lines...); len(s.waiting) >= min(hurryAt, s.config.Limit/4) {
		signal(s.hurry)
	}
}

// signal puts a token into a channel, if there is none.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// hasRoom reports whether n more bytes fit into the queue. The caller holds the lock.
func (s *Spool) hasRoom(n int) bool {
	return len(s.waiting) == 0 || len(s.waiting)+n <= s.config.Limit
}

// await waits for room, and reports whether the lines were queued. The caller holds the lock, which
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
		if !s.closed && s.written == before { // all waits end until a write succeeds
			s.stalled = true
			for _, w := range s.queue {
				close(w.done)
			}
			s.queue = nil
		}
	}
	return w.accepted
}

// admit queues the lines of waiting writes, as far as there is room. The caller holds the lock.
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

// drop counts lines that are lost. The caller holds the lock.
func (s *Spool) drop(lines int) {
	if s.lost == 0 {
		switch {
		case s.why != nil:
			s.cause = s.why
		case s.closed:
			s.cause = errClosed
		default:
			s.cause = errSlow
		}
	}
	s.lost += lines
	s.allLost += int64(lines)
}

// shouldReport reports whether to report a new failure. The caller holds the lock.
func (s *Spool) shouldReport() bool {
	if s.trouble || s.closed || time.Since(s.lastReport) < reportEvery {
		return false
	}
	s.trouble, s.lastReport = true, time.Now()
	return true
}

// Lost returns the number of dropped lines.
func (s *Spool) Lost() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allLost
}

// Reopen opens the output again. To rotate a log, rename its file and call Reopen: queued lines go
// to the old file, and no line is lost. If opening fails, the old file stays. Reopen waits until
// that is done, or ctx ends.
func (s *Spool) Reopen(ctx context.Context) error {
	if s.config.Open == nil {
		return errors.New("spool: the output cannot be reopened")
	}
	result := make(chan error, 1)
	select {
	case s.orders <- result:
	case <-s.done:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close writes the queued lines, if that succeeds before ctx ends, and closes the output. Its error
// contains the number of lost lines. Later lines are dropped.
func (s *Spool) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	s.closed = true
	s.mu.Unlock()
	close(s.stop) // also ends the waits for room
	select {
	case <-s.done:
	case <-ctx.Done():
		// The writer may be blocked in a write. Closing the file ends the write, except for an
		// inherited terminal or pipe.
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
