package h2

import (
	"fmt"
	"slices"
	"strings"
)

// HasEnded reports whether the session has ended.
func (s *Session) HasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == phaseEnded
}

// IsWaiting reports whether a response waits for windows or room.
func (s *Session) IsWaiting() bool { return s.Waiting() > 0 }

// Waiting returns how many responses wait.
func (s *Session) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.output.waiting)
}

// Pending returns how many bytes of output wait.
func (s *Session) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.pendingLocked()
}

// Running returns how many streams have handlers that have not returned.
func (s *Session) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// Buffered returns how much memory the session's buffers for input hold.
func (s *Session) Buffered() int { return cap(s.input.partial) + cap(s.input.block) }

// AppendWaiting adds streams that wait for bytes of DATA, in the notation "id:urgency" or
// "id:urgency:i".
func (s *Session) AppendWaiting(list string) {
	for text := range strings.FieldsSeq(list) {
		st := &Stream{session: s, sendWindow: 1, wants: 1}
		rest := ""
		fmt.Sscanf(strings.ReplaceAll(text, ":", " "), "%d %d %s", &st.id, &st.urgency, &rest)
		st.incremental = rest == "i"
		s.output.waiting = append(s.output.waiting, st)
	}
}

// GrantOrder serves the waiting streams, one after another, and returns their order.
func (s *Session) GrantOrder() (order string) {
	for len(s.output.waiting) > 0 {
		before := append([]*Stream(nil), s.output.waiting...)
		s.windows.send = 1
		s.grantLocked()
		for _, st := range before {
			if st.granted {
				order += fmt.Sprint(st.id, " ")
				st.granted = false
			}
		}
	}
	return strings.TrimSpace(order)
}

// HoldsStream reports whether the session refers to a stream.
func (s *Session) HoldsStream() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isStream := func(st *Stream) bool { return st != nil }
	return len(s.streams) > 0 || s.ended != nil && len(s.ended.halfClosed) > 0 ||
		s.input.data.stream != nil || slices.ContainsFunc(s.ready[:cap(s.ready)], isStream) ||
		slices.ContainsFunc(s.output.waiting[:cap(s.output.waiting)], isStream)
}

// HoldsLargeTable reports whether the table of streams has room for many.
func (s *Session) HoldsLargeTable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mostStreams > keptStreams
}
