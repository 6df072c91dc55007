package spool

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

func (s *Spool) run() {
	defer close(s.done)
	defer func() { s.out.Close() }()
	for {
		select {
		case <-s.wake:
			s.pause(s.config.Gather-time.Since(s.w.last), s.hurry) // for more lines, unless there are many
		case result := <-s.orders:
			result <- s.reopen()
		case <-s.stop:
			s.writeAll()
			s.countPending()
			return
		}
		for !s.writeBatch() {
			if s.pause(retryAfter, nil) {
				break
			}
		}
	}
}

// pause waits, unless Reopen is called or hurry has a token. It reports whether the Spool is closed.
func (s *Spool) pause(d time.Duration, hurry <-chan struct{}) (stopped bool) {
	if d <= 0 {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	case reply := <-s.orders:
		reply <- s.reopen()
	case <-s.stop:
		return true
	}
	return false
}

// writeAll writes all lines, up to the first failure.
func (s *Spool) writeAll() {
	for (len(s.w.pending) > 0 || s.collect()) && s.writeBatch() {
	}
}

// writeBatch writes the pending lines, or else the queue. It reports whether it succeeded.
func (s *Spool) writeBatch() bool {
	if len(s.w.pending) == 0 && !s.collect() {
		return true
	}
	n, err := s.out.Write(s.w.pending[s.w.written:])
	s.w.last = time.Now()
	s.w.written += max(n, 0)
	if err == nil && s.w.written < len(s.w.pending) {
		err = io.ErrShortWrite
	}
	s.record(err)
	if err != nil {
		return false
	}
	s.w.pending, s.w.written, s.w.mentioned = s.w.pending[:0], 0, 0
	return true
}

// collect moves the queue to pending, with a line about lost lines after it. It reports whether
// there is anything to write.
func (s *Spool) collect() bool {
	s.mu.Lock()
	s.w.pending, s.waiting = s.waiting, s.w.pending
	s.admit()
	lost, why := s.lost, s.cause
	s.lost = 0
	s.mu.Unlock()
	if lost > 0 {
		s.w.mentioned = lost
		if s.config.Lost != nil {
			s.w.pending = append(s.w.pending, s.config.Lost(lost, why)...)
		}
	}
	return len(s.w.pending) > 0
}

// record records the result of a write, and reports a change.
func (s *Spool) record(err error) {
	s.mu.Lock()
	s.why = err
	if err == nil {
		s.unreported += s.w.mentioned
		s.written++
		s.stalled = false
	}
	begins := err != nil && s.shouldReport()
	ends := err == nil && s.trouble && s.lost == 0 // otherwise the next record reports more
	lost := s.unreported
	if ends {
		s.trouble, s.unreported = false, 0
	}
	s.mu.Unlock()
	switch {
	case begins:
		s.config.Report(err.Error() + "; lines wait, and are dropped when the queue is full")
	case ends:
		s.config.Report(fmt.Sprintf("writing lines again; %d were lost", lost))
	}
}

// countPending counts the lines that were never written.
func (s *Spool) countPending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	newline := []byte("\n")
	s.drop(bytes.Count(s.w.pending[s.w.written:], newline) + bytes.Count(s.waiting, newline))
	s.lost += s.w.mentioned
}

// reopen writes what is possible, and opens the output again.
func (s *Spool) reopen() error {
	s.writeAll()
	out, err := s.config.Open()
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.out
	s.out = out
	s.mu.Unlock()
	old.Close()
	// a line that is only partly in the old file is written completely to the new one
	s.w.written = bytes.LastIndexByte(s.w.pending[:s.w.written], '\n') + 1
	return nil
}
