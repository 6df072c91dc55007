package load

import (
	"fmt"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// Result is what a run measured.
type Result struct {
	URL         string  `json:"url"`
	Connections int     `json:"connections"`
	Threads     int     `json:"threads"`
	Seconds     float64 `json:"seconds"` // length of the measured time
	// part of Seconds in which a Session's slices only waited for responses
	Drained   float64        `json:"drainedSeconds,omitempty"`
	Requests  uint64         `json:"requests"`
	Bytes     uint64         `json:"receivedBytes"` // received, including heads
	BodyBytes uint64         `json:"bodyBytes"`     // received in bodies of complete responses
	SentBytes uint64         `json:"sentBytes"`
	Statuses  map[int]uint64 `json:"statuses"`
	Errors    Errors         `json:"errors"`
	Connects  uint64         `json:"connectionsMeasured"` // connections opened while measuring
	Opened    uint64         `json:"connectionsBefore"`   // connections opened before measuring
	// Resumed is how many connections of Connects resumed a TLS session. It requires a
	// ClientSessionCache in Plan.TLS.
	Resumed uint64 `json:"resumedHandshakes,omitempty"`
	// Latency runs from when a request was due until its last response byte. In a closed loop, a
	// request is due when the previous response has arrived. Latency includes timed-out and
	// Unanswered requests with the time that they waited.
	Latency *hist.Histogram `json:"latency"`
	// Service runs from when a request was sent until its last response byte.
	Service *hist.Histogram `json:"service"`
	// FirstByte runs from when a request was sent until its first response byte.
	FirstByte *hist.Histogram `json:"firstByte"`
	// Connect is the time to open each connection, before measuring too. Handshake is the time of
	// the TLS handshake after it; nil without TLS.
	Connect   *hist.Histogram `json:"connect"`
	Handshake *hist.Histogram `json:"handshake,omitempty"`
	// Unanswered counts requests without a response at the end that had waited longer than the 99th
	// percentile of Service.
	Unanswered uint64 `json:"unanswered"`
	// Due is the number of requests due in the measured time of an open loop; 0 in a closed loop.
	Due float64 `json:"due,omitempty"`

	// Timeline holds each second of the measured time; the last may be shorter. It is nil for a
	// Session.
	Timeline  []Second  `json:"timeline"`
	Generator Generator `json:"generator"`
	FastCGI   *FastCGI  `json:"fastCGI,omitempty"` // nil for other protocols

	// Head is the head of the first response.
	Head string `json:"head,omitempty"`
	// Samples are the first Plan.Samples requests in the order in which they ended.
	Samples []Sample `json:"-"`
	// Windows holds, for each thread, the number of responses in each tenth of a second. The last
	// window may be shorter. It is nil for a Session.
	Windows [][]uint32 `json:"-"`

	// Waiting is how long requests without a response at the end had waited. Only the Result of a
	// part has it, because only a Joiner can decide which of them count as Unanswered.
	Waiting *hist.Histogram `json:"waiting,omitempty"`
	// Parts holds what each process of a joined Result measured.
	Parts []PartResult `json:"parts,omitempty"`
}

// Sample is one request that ended. Times count from the start of measuring.
type Sample struct {
	// Connect is the time to open the connection, including TLS, if it was opened for this request;
	// otherwise 0.
	Connect time.Duration
	// Due is when the request was due, and Sent when sending began. First is when the first byte of
	// its response arrived, or 0 without one. Done is when the request ended.
	Due, Sent, First, Done time.Duration

	Connection int32 // index of the Plan's connection
	Request    int32 // index in Plan.List
	Status     int32 // 0 without a response
	Kept       bool  // the connection stayed open after it
	Failure    Failure
	Body       int64 // bytes of the response's body
	Bytes      int64 // bytes of the whole response
}

// Failure is why a request failed.
type Failure uint8

const (
	NoFailure     Failure = iota // it succeeded
	FailedConnect                // the connection could not be opened
	FailedRead                   // the connection closed or the response was malformed
	FailedWrite                  // sending failed
	FailedTimeout                // no complete response within the timeout
	FailedStatus                 // the response's status was 400 or above, or unexpected
	FailedBody                   // the response's body was not the expected one
	FailedHeader                 // the response lacked an expected header field
)

// Errors counts the measured errors by kind.
type Errors struct {
	Connect uint64 `json:"connect"` // a connection could not be opened
	Read    uint64 `json:"read"`    // the connection closed, or the response was malformed or refused
	Write   uint64 `json:"write"`   // sending failed
	Timeout uint64 `json:"timeout"` // no connection or response within the timeout
	Status  uint64 `json:"status"`  // responses with status 400 or above, or an unexpected one
	Body    uint64 `json:"body"`    // responses with an unexpected body
	Header  uint64 `json:"header"`  // responses without an expected header field

	// First is the text of the first error, which may precede measuring.
	First string `json:"first,omitempty"`
}

// Total returns the number of errors of all kinds.
func (e Errors) Total() uint64 {
	return e.Connect + e.Read + e.Write + e.Timeout + e.Status + e.Body + e.Header
}

// of returns the counter of one kind.
func (e *Errors) of(f Failure) *uint64 {
	return [...]*uint64{
		FailedConnect: &e.Connect, FailedRead: &e.Read, FailedWrite: &e.Write, FailedTimeout: &e.Timeout,
		FailedStatus: &e.Status, FailedBody: &e.Body, FailedHeader: &e.Header,
	}[f]
}

// since returns the errors counted after an earlier count, or nil if there are none.
func (e *Errors) since(earlier *Errors) *Errors {
	if e.Total() == earlier.Total() {
		return nil
	}
	return &Errors{
		Connect: e.Connect - earlier.Connect, Read: e.Read - earlier.Read, Write: e.Write - earlier.Write,
		Timeout: e.Timeout - earlier.Timeout, Status: e.Status - earlier.Status, Body: e.Body - earlier.Body,
		Header: e.Header - earlier.Header, First: e.First,
	}
}

func (e *Errors) merge(o Errors) {
	e.Connect += o.Connect
	e.Read += o.Read
	e.Write += o.Write
	e.Timeout += o.Timeout
	e.Status += o.Status
	e.Body += o.Body
	e.Header += o.Header
	if e.First == "" {
		e.First = o.First
	}
}

// Second is one second of the measured time; the last one may be shorter.
type Second struct {
	Index    int    `json:"index"` // from 0
	Requests uint64 `json:"requests"`
	Bytes    uint64 `json:"receivedBytes"`
	Errors   uint64 `json:"errors"`
	// Statuses counts the responses by status code, and Kinds the errors by kind; nil without any.
	Statuses map[int]uint64 `json:"statuses,omitempty"`
	Kinds    *Errors        `json:"errorKinds,omitempty"`
	// MaxLag is the greatest value of Generator.Lag.
	MaxLag time.Duration `json:"maxLagNs,omitempty"`
	// Latency is Result.Latency for this second. After the first hour only its figures are kept.
	Latency hist.Packed `json:"latency"`
}

// Generator is what the load generator itself used in the measured time.
type Generator struct {
	UserSeconds float64 `json:"userSeconds"`
	SysSeconds  float64 `json:"sysSeconds"`
	// Busy is the CPU share of the busiest thread, from 0 to 1. Near 1 the generator, not the
	// server, may have limited the rate.
	Busy float64 `json:"busyShare"`
	// Lag is how late the generator sent requests of an open loop although a connection was free.
	// It is nil in a closed loop.
	Lag *hist.Histogram `json:"lag,omitempty"`
}

// Thresholds of Result.Doubts.
const (
	// BusyBound is the value of Generator.Busy from which on the generator may have limited the
	// rate.
	BusyBound = 0.9
	// maxLagShare limits the 99th percentile of Lag as a share of the median latency; a lag below
	// minLag is always accepted.
	maxLagShare, minLag = 0.1, 100 * time.Microsecond
	// minResponseShare is the share of due requests that must have a response.
	minResponseShare = 0.99
)

// Doubts returns why the generator or the Plan, rather than the server, may have determined the
// figures.
func (r *Result) Doubts() (doubts []string) {
	add := func(format string, args ...any) { doubts = append(doubts, fmt.Sprintf(format, args...)) }
	if len(r.Parts) == 0 {
		median := time.Duration(0)
		if r.Generator.Lag != nil { // a Result with a schedule
			median = r.Latency.Quantile(0.5)
		}
		doubts = r.Generator.doubts("the generator", median)
	}
	doubts = append(doubts, r.partDoubts()...)
	if responsesBefore := float64(r.Requests); r.Due > 0 && responsesBefore < minResponseShare*r.Due {
		add("of %.0f due requests, %.0f had a response: the server was too slow for the rate, or %d connections were too few", r.Due, responsesBefore, r.Connections)
	}
	return doubts
}

// doubts returns why the generator may have determined the figures. The name stands for it in the
// text.
func (g *Generator) doubts(name string, median time.Duration) (doubts []string) {
	if g.Busy >= BusyBound {
		doubts = append(doubts, fmt.Sprintf("%s was busy %.0f%% of the time: it, not the server, may have limited the rate",
			name, 100*g.Busy))
	}
	if g.Lag == nil {
		return doubts
	}
	late := g.Lag.Quantile(0.99)
	if bound := max(minLag, time.Duration(maxLagShare*float64(median))); late > bound {
		doubts = append(doubts, fmt.Sprintf("%s was late: it sent 1 %% of requests %v or more after they were due, although a connection was free",
			name, late.Round(time.Microsecond)))
	}
	return doubts
}

const (
	// maxApart is how far apart the parts of a joined Result may begin.
	maxApart = time.Millisecond
	// maxBehind is how long after its end a second of a part may be reported.
	maxBehind = 2 * time.Second
)

// partDoubts returns what of the parts of a joined Result is missing or doubtful.
func (r *Result) partDoubts() (doubts []string) {
	last := time.Duration(0)
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Lost != "" {
			doubts = append(doubts, fmt.Sprintf("the generator on %s was lost: %s", p.Name, p.Lost))
		}
		if p.Behind > maxBehind {
			doubts = append(doubts, fmt.Sprintf("the generator on %s fell behind: it reported a second %.1f s after its end",
				p.Name, p.Behind.Seconds()))
		}
		doubts = append(doubts, p.Generator.doubts("the generator on "+p.Name, p.Latency.P50)...)
		last = max(last, p.Began)
	}
	if last > maxApart {
		doubts = append(doubts, fmt.Sprintf("the generators began %v apart", last.Round(time.Microsecond)))
	}
	return doubts
}

// PerSecond returns the rate of responses.
func (r *Result) PerSecond() float64 {
	if r.Seconds == 0 {
		return 0
	}
	return float64(r.Requests) / r.Seconds
}

// PerCPUSecond returns the number of responses per second of the generator's CPU time.
func (r *Result) PerCPUSecond() float64 {
	cpu := r.Generator.UserSeconds + r.Generator.SysSeconds
	if cpu == 0 {
		return 0
	}
	return float64(r.Requests) / cpu
}

// ConnectError is the error of Run if no connection could be opened.
type ConnectError struct {
	URL   string
	First string // the first error
}

func (e *ConnectError) Error() string { return "load: no connection to " + e.URL + ": " + e.First }
