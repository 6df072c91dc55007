package sample

import (
	"fmt"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// Outcome classifies the response that a client received for a request.
type Outcome string

// The outcomes, in display order.
const (
	Response Outcome = "response"   // a complete response with a status below 400
	Status   Outcome = "error page" // a response with another status, such as 502 of a front
	Refused  Outcome = "refused"    // no connection could be opened
	Closed   Outcome = "closed"     // the connection ended before the response was complete
	Timeout  Outcome = "timeout"    // no complete response in time
)

// Outcomes returns all outcomes in display order.
func Outcomes() []Outcome { return []Outcome{Response, Status, Refused, Closed, Timeout} }

// Events holds the results of an experiment with events, which has no tables.
type Events struct {
	Timeout time.Duration `json:"timeoutNs"` // of a request
	Groups  []Group       `json:"groups"`
	Cases   []Case        `json:"cases"`
}

// Group describes clients that send requests at a fixed rate, whether or not earlier ones have
// ended.
type Group struct {
	Name   string  `json:"name" yaml:"name"`
	Method string  `json:"-" yaml:"method"`       // GET or POST, which has a short body
	Rate   float64 `json:"perSecond" yaml:"rate"` // requests per second
	Fresh  bool    `json:"-" yaml:"fresh"`        // each request has a connection of its own; otherwise idle ones are reused
}

// Case holds the results of one case.
type Case struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	About    string   `json:"about"`
	Versions []string `json:"versions"`
	// Absent is why the case was left out or ended early; otherwise it is empty.
	Absent string `json:"absent,omitempty"`

	Traffic Traffic  `json:"traffic,omitzero"` // of all groups
	Marks   []Mark   `json:"marks"`
	Samples []Moment `json:"samples"` // from the start on
	Work    Work     `json:"work"`

	Streams *Streams `json:"streams,omitempty"` // nil unless clients keep streams open
}

// Traffic counts the requests of a case.
type Traffic struct {
	Seconds []Second `json:"seconds"` // by the second in which requests were due
	// FirstLost and LastLost are when the first and the last lost request were due. They are
	// meaningless without a loss.
	FirstLost time.Duration `json:"firstLostNs"`
	LastLost  time.Duration `json:"lastLostNs"`
	// Latency is of complete responses, from when the request was due; nil without any.
	Latency *hist.Histogram `json:"latency"`
}

// Request holds the outcome and the times of one request.
type Request struct {
	Due     time.Duration // after the start
	Late    time.Duration // from then until its client began to send it
	Took    time.Duration // from Due until its outcome
	Outcome Outcome
}

// Second counts the requests that were due in one second.
type Second struct {
	Outcomes map[Outcome]int `json:"outcomes"`
	Slowest  time.Duration   `json:"slowestNs"` // of complete responses
	Latest   time.Duration   `json:"latestNs"`  // from when a request was due until its client began to send it
}

// Mark is an event.
type Mark struct {
	At   time.Duration `json:"atNs"`
	Text string        `json:"text"`
}

// Moment holds the server's memory and the size of the crowd at a moment.
type Moment struct {
	At      time.Duration `json:"atNs"`
	Memory  int64         `json:"memoryBytes"`  // resident, of all processes of the case
	Sockets int64         `json:"socketsBytes"` // of the kernel, for the TCP sockets of the whole machine
	Crowd   int           `json:"crowd"`        // open connections of the crowd
	Ended   int           `json:"ended"`        // its connections that the server has ended or refused
	Files   int64         `json:"filesBytes"`   // temporary files of the processes, at the end only
}

// Add counts a request.
func (t *Traffic) Add(r Request) {
	for len(t.Seconds) <= int(r.Due/time.Second) {
		t.Seconds = append(t.Seconds, Second{Outcomes: make(map[Outcome]int)})
	}
	s := &t.Seconds[r.Due/time.Second]
	s.Outcomes[r.Outcome]++
	s.Latest = max(s.Latest, r.Late)
	if r.Outcome == Response {
		s.Slowest = max(s.Slowest, r.Took)
		if t.Latency == nil {
			t.Latency = hist.New()
		}
		t.Latency.Record(r.Took)
		return
	}
	if sum := t.Sum(); sum.Lost() == 1 || r.Due < t.FirstLost {
		t.FirstLost = r.Due
	}
	t.LastLost = max(t.LastLost, r.Due)
}

// Quantile returns the time that a share q of the requests, from 0 to 1, did not exceed. It returns
// false if more than the others were lost.
func (t *Traffic) Quantile(q float64) (d time.Duration, known bool) {
	sum := t.Sum()
	responses := sum.Outcomes[Response]
	if wanted := q * float64(sum.Sent()); responses > 0 && wanted <= float64(responses) {
		return t.Latency.Quantile(wanted / float64(responses)), true
	}
	return 0, false
}

// Sent returns the number of requests.
func (s *Second) Sent() (n int) {
	for _, of := range s.Outcomes {
		n += of
	}
	return n
}

// Lost returns the number of requests without a complete response whose status is below 400.
func (s *Second) Lost() int { return s.Sent() - s.Outcomes[Response] }

// Sum returns all seconds as one.
func (t *Traffic) Sum() Second {
	all := Second{Outcomes: make(map[Outcome]int)}
	for i := range t.Seconds {
		s := &t.Seconds[i]
		for o, n := range s.Outcomes {
			all.Outcomes[o] += n
		}
		all.Slowest, all.Latest = max(all.Slowest, s.Slowest), max(all.Latest, s.Latest)
	}
	return all
}

// Peak returns the highest memory, size of files and number of slow clients, and the first sample.
func (c *Case) Peak() (first, most Moment) {
	if len(c.Samples) == 0 {
		return first, most
	}
	first = c.Samples[0]
	for _, s := range c.Samples {
		most.Memory, most.Sockets = max(most.Memory, s.Memory), max(most.Sockets, s.Sockets)
		most.Crowd, most.Ended = max(most.Crowd, s.Crowd), max(most.Ended, s.Ended)
		most.Files = max(most.Files, s.Files)
	}
	return first, most
}

// CrowdAt returns the crowd's connections at a time.
func (c *Case) CrowdAt(at time.Duration) (n int) {
	for _, s := range c.Samples {
		if s.At > at {
			break
		}
		n = s.Crowd
	}
	return n
}

// HasCrowd reports whether a case had a crowd.
func (e *Events) HasCrowd() bool {
	for i := range e.Cases {
		if _, most := e.Cases[i].Peak(); most.Crowd+most.Ended > 0 {
			return true
		}
	}
	return false
}

// Limits beyond which the machine, and not the server, may have caused losses.
const (
	maxLateShare   = 0.1  // share of their timeout by which requests may be sent late
	maxStolenShare = 0.05 // share of the processors' time that other virtual machines may have
)

// Work counts the CPU time of the processors during a case.
type Work struct {
	Cores   int           `json:"cores"`
	Length  time.Duration `json:"lengthNs"`
	Server  time.Duration `json:"serverNs"`  // CPU time of the case's processes that live at its end
	Clients time.Duration `json:"clientsNs"` // CPU time of the lab
	Busy    time.Duration `json:"busyNs"`    // of all processors, also for interrupts; 0 if unknown
	Stolen  time.Duration `json:"stolenNs"`  // of that, what other virtual machines had
}

// Share returns a CPU time as a share of all processors.
func (w *Work) Share(of time.Duration) float64 {
	if w.Cores == 0 || w.Length <= 0 {
		return 0
	}
	return float64(of) / float64(w.Length) / float64(w.Cores)
}

// Latest returns how late a request was sent, at most.
func (c *Case) Latest() time.Duration { return c.Traffic.Sum().Latest }

// Disturbance returns why the machine, and not the server, may have caused the losses and times of
// a case, or "". The timeout is that of a request.
func (c *Case) Disturbance(timeout time.Duration) string {
	w, late := &c.Work, c.Latest()
	isLate := float64(late) > maxLateShare*float64(timeout)
	if !isLate && w.Share(w.Stolen) <= maxStolenShare {
		return ""
	}
	return fmt.Sprintf("clients sent requests up to %d ms late; the processors were %.0f %% busy: server %.0f %%, "+
		"clients %.0f %%, other virtual machines %.0f %%", late.Round(time.Millisecond).Milliseconds(),
		100*w.Share(w.Busy), 100*w.Share(w.Server), 100*w.Share(w.Clients), 100*w.Share(w.Stolen))
}

// Streams counts the events that clients received on their open streams.
type Streams struct {
	Kind    string `json:"kind"` // the streams, for a reader, such as "websockets"
	Clients int    `json:"clients"`
	// Opened is the number of streams that received an event. Failure is why another one received
	// none.
	Opened  int    `json:"opened"`
	Failure string `json:"failure,omitempty"`
	// Memory is the resident memory of all processes of the case: without streams, and with all of
	// them.
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
	return First(s.Phases, func(p *Phase) bool { return p.Step == step })
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
