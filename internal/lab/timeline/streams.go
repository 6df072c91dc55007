package timeline

import (
	"time"

	"github.com/tarehq/tare/load/hist"
)

// Streams is what clients received that each keep a stream open.
type Streams struct {
	Kind    string `json:"kind"` // the streams, for a reader, such as "websockets"
	Clients int    `json:"clients"`
	// Opened is the number of streams with a first event, and Failure why another one has none.
	Opened  int    `json:"opened"`
	Failure string `json:"failure,omitempty"`
	// Memory is what all processes of the case had resident without streams and with all of them.
	Memory [2]int64 `json:"memoryBytes"`
	Phases []Phase  `json:"phases"`
}

// Opening is the step of the first phase, which ends when all streams are open.
const Opening = "open"

// Phase is the time from one step of a plan to the next.
type Phase struct {
	Step   string        `json:"step"` // "" before the first one, when all streams are open
	Length time.Duration `json:"lengthNs"`
	Lost   int           `json:"lost"` // streams that the server has ended
	Server time.Duration `json:"serverNs"`
	// Latency is the time of each event from its write until its client has read it.
	Latency *hist.Histogram `json:"latency"`
}

// Phase returns the phase that a step began, or nil.
func (s *Streams) Phase(step string) *Phase {
	for i := range s.Phases {
		if s.Phases[i].Step == step {
			return &s.Phases[i]
		}
	}
	return nil
}

// PerStream returns the memory of a stream, in bytes.
func (s *Streams) PerStream() float64 { return float64(s.Memory[1]-s.Memory[0]) / float64(s.Opened) }

// PerEvent returns the server's CPU time of an event, while all streams were open.
func (s *Streams) PerEvent() time.Duration {
	if p := s.Phase(""); p != nil && p.Latency.Count() > 0 {
		return p.Server / time.Duration(p.Latency.Count())
	}
	return 0
}
