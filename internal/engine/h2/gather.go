package h2

import "time"

const (
	// maxGathering is how long a goroutine may gather responses. It is longer if others compute.
	// Then the next ungathered responses are sent at once.
	maxGathering = 200 * time.Microsecond
	ungathered   = 64
)

// gathering is the state of a session in which one goroutine gathers the responses of several
// handlers, before it sends them. Session.mu guards it.
type gathering struct {
	isOn bool // a goroutine is going to call Flush
	skip int  // responses that are not gathered
}

// gatherer says which goroutine gathers responses.
type gatherer uint8

const (
	gathersNot gatherer = iota
	gathersHere
	gathersElsewhere
)

// beginGathering decides whether the caller gathers responses. Its own was appended. If another
// goroutine gathers, the caller need not send: the other one does. The last one sends at once.
func (s *Session) beginGathering() gatherer {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &s.gathering
	switch {
	case s.running == 0 || s.phase == phaseEnded:
		return gathersNot
	case g.isOn:
		return gathersElsewhere
	case g.skip > 0:
		g.skip--
		return gathersNot
	}
	g.isOn = true
	return gathersHere
}

// endGathering is called before the gathered responses are sent.
func (s *Session) endGathering(elapsed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathering.isOn = false
	if elapsed > maxGathering {
		s.gathering.skip = ungathered
	}
}
