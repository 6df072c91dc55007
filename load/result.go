package load

import (
	"iter"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// Result is what a run measured.
type Result struct {
	URL         string         `json:"url"`
	Connections int            `json:"connections"`
	Threads     int            `json:"threads"`
	Warmup      float64        `json:"warmupSeconds,omitempty"`
	Seconds     float64        `json:"seconds"` // length of the measured time
	Requests    uint64         `json:"requests"`
	Bytes       uint64         `json:"receivedBytes"` // received, including heads
	BodyBytes   uint64         `json:"bodyBytes"`     // received in bodies of complete responses
	SentBytes   uint64         `json:"sentBytes"`
	Statuses    map[int]uint64 `json:"statuses"`
	Errors      Errors         `json:"errors"`
	Connects    uint64         `json:"connectionsMeasured"` // connections opened while measuring
	Opened      uint64         `json:"connectionsBefore"`   // connections opened before measuring
	// Resumed is how many connections of Connects resumed a TLS session. It requires a
	// ClientSessionCache in Plan.TLS.
	Resumed uint64 `json:"resumedHandshakes,omitempty"`
	// Latency runs from when a request was due until its last response byte. In a closed loop, a
	// request is due when it is sent. Latency includes the requests that timed out, and those that
	// NoResponse counts, with the time that they waited.
	Latency *hist.Histogram `json:"latency"`
	// Service runs from when a request was sent until its last response byte.
	Service *hist.Histogram `json:"service"`
	// FirstByte runs from when a request was sent until its first response byte.
	FirstByte *hist.Histogram `json:"firstByte"`
	// Connect is the time to open each connection, before measuring too. Handshake is the time of
	// the TLS handshake after it; nil without TLS.
	Connect   *hist.Histogram `json:"connect"`
	Handshake *hist.Histogram `json:"handshake,omitempty"`
	// Events is the number of events in responses of type text/event-stream, and BetweenEvents the
	// time from one to the next of the same response; nil without any. Responses without an end
	// count, too.
	Events        uint64          `json:"events,omitempty"`
	BetweenEvents *hist.Histogram `json:"betweenEvents,omitempty"`
	// InFlight is the number of requests that had been sent and had no response at the end.
	InFlight uint64 `json:"inFlight"`
	// NoResponse counts requests without a response at the end, sent or not, that had waited longer
	// than the 99th percentile of Service.
	NoResponse uint64 `json:"noResponse"`
	// Due is the number of requests due in the measured time of an open loop; 0 in a closed loop.
	// With a Poisson pace it is the number drawn.
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
	// part has it, because only a Joiner can decide which of them NoResponse counts.
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
	FailedRefused                // the server refused the HTTP/2 stream without processing it

	failures = iota // number of values
)

func (f Failure) String() string {
	return [failures]string{"", "connect", "read", "write", "timeout", "status", "body", "header", "refused"}[f]
}

// Errors counts the measured errors by kind.
type Errors struct {
	Connect uint64 `json:"connect"` // a connection could not be opened
	Read    uint64 `json:"read"`    // the connection closed, or the response was malformed
	Write   uint64 `json:"write"`   // sending failed
	Timeout uint64 `json:"timeout"` // no connection or response within the timeout
	Status  uint64 `json:"status"`  // responses with status 400 or above, or an unexpected one
	Body    uint64 `json:"body"`    // responses with an unexpected body
	Header  uint64 `json:"header"`  // responses without an expected header field
	Refused uint64 `json:"refused"` // HTTP/2 streams that the server refused, or did not accept before it went away

	// First is the text of the first error, which may precede measuring.
	First string `json:"first,omitempty"`
}

// Total returns the number of errors of all kinds.
func (e Errors) Total() uint64 {
	return e.WithoutResponse() + e.Status + e.Body + e.Header
}

// WithoutResponse returns the number of errors without a response. The others count as requests,
// too.
func (e Errors) WithoutResponse() uint64 { return e.Connect + e.Read + e.Write + e.Timeout + e.Refused }

func (e *Errors) of(f Failure) *uint64 {
	return [failures]*uint64{
		FailedConnect: &e.Connect, FailedRead: &e.Read, FailedWrite: &e.Write, FailedTimeout: &e.Timeout,
		FailedStatus: &e.Status, FailedBody: &e.Body, FailedHeader: &e.Header, FailedRefused: &e.Refused,
	}[f]
}

// Kinds iterates over the kinds of errors and their counts.
func (e *Errors) Kinds() iter.Seq2[Failure, uint64] {
	return func(yield func(Failure, uint64) bool) {
		for f := NoFailure + 1; f < failures && yield(f, *e.of(f)); f++ {
		}
	}
}

func (e *Errors) merge(o Errors) {
	for f, n := range o.Kinds() {
		*e.of(f) += n
	}
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

// MayLimit reports whether the generator was so busy that it, not the server, may have limited the
// rate.
func (g Generator) MayLimit() bool { return g.Busy >= busyBound }

// Ended returns the number of requests that ended, with a response or an error.
func (r *Result) Ended() uint64 { return r.Requests + r.Errors.WithoutResponse() }

// PerSecond returns the rate of responses.
func (r *Result) PerSecond() float64 {
	if r.Seconds == 0 {
		return 0
	}
	return float64(r.Requests) / r.Seconds
}

// ConnectError is the error of Run if no connection could be opened.
type ConnectError struct {
	URL   string
	First string // the first error
}

func (e *ConnectError) Error() string { return "load: no connection to " + e.URL + ": " + e.First }
