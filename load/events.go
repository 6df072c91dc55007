package load

import (
	"bytes"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// eventStream counts the events in the body of a response of type text/event-stream.
//
// An event is a block of lines that an empty line ends and that has more than comments (HTML Living
// Standard, 9.2.6). Its time is when the input with its end arrived.
type eventStream struct {
	tally     *tally
	before    int64 // time of the event before; 0 without one
	inLine    bool  // the current line is not empty
	hasFields bool  // the current block has a line that is no comment
	afterCR   bool  // a line feed belongs to the line end before it
}

// newEventStream returns the counter for a response with the given fields, or nil if its body has
// no events. Readers call it for bodies without a known length only.
func newEventStream(t *tally, text []byte, fields []http1.Field) *eventStream {
	const mediaType = "text/event-stream"
	for _, f := range fields {
		if f.Known != http1.NameContentType {
			continue
		}
		value, _, _ := bytes.Cut(f.Value.In(text), []byte(";"))
		if strings.EqualFold(string(bytes.TrimSpace(value)), mediaType) {
			return &eventStream{tally: t}
		}
	}
	return nil
}

func (s *eventStream) data(piece []byte) {
	for _, b := range piece {
		switch isEnd := b == '\r' || b == '\n'; {
		case b == '\n' && s.afterCR:
		case !isEnd:
			s.hasFields = s.hasFields || !s.inLine && b != ':'
			s.inLine = true
		case s.inLine:
			s.inLine = false
		case s.hasFields:
			s.hasFields = false
			s.record()
		}
		s.afterCR = b == '\r'
	}
}

func (s *eventStream) record() {
	t := s.tally
	if t.counting {
		t.Events++
		if s.before > 0 {
			t.BetweenEvents.Record(time.Duration(t.arrived - s.before))
		}
	}
	s.before = t.arrived
}
