package load

import (
	"fmt"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// Result is what a run measured.
type Result struct {
	URL         string         `json:"url"`
	Connections int            `json:"connections"`
	Threads     int            `json:"threads"`
	Seconds     float64        `json:"seconds"`           // measured
	Drained     float64        `json:"drained,omitempty"` // seconds of those in which a Session's slices only waited for responses
	Requests    uint64         `json:"requests"`
	Bytes       uint64         `json:"bytes"`     // received, heads included
	BodyBytes   uint64         `json:"bodyBytes"` // received in the bodies of whole responses
	SentBytes   uint64         `json:"sentBytes"`
	Statuses    map[int]uint64 `json:"statuses"`
	Errors      Errors         `json:"errors"`
	Connects    uint64         `json:"connects"` // connections made while measuring
	Opened      uint64         `json:"opened"`   // connections made before
	// Latency is the time from when a request was due to its whole response. In a closed
	// loop it is due when the last one was answered. It holds also what was not answered in
	// time, with as long as that has waited: timeouts, and what is Unanswered.
	Latency *hist.Histogram `json:"latency"`
	// Service is the time from when a request was sent to its whole response.
	Service *hist.Histogram `json:"service"`
	// FirstByte is the time from when a request was sent to its response's first byte.
	FirstByte *hist.Histogram `json:"firstByte"`
	// Connect is the time it took to make each connection, before measuring too. Handshake is
	// that of TLS, which comes after it; nil without TLS.
	Connect   *hist.Histogram `json:"connect"`
	Handshake *hist.Histogram `json:"handshake,omitempty"`
	// Unanswered is how many requests had been due at the end for longer than 99 in 100 of
	// the others took from being sent.
	Unanswered uint64 `json:"unanswered"`
	// Asked is how many requests were due in the measured time of an open loop; 0 in a closed
	// one.
	Asked float64 `json:"asked,omitempty"`

	// Timeline has the seconds of the measured time; the last may be a part of one. A Session's
	// Result has none.
	Timeline  []Second  `json:"timeline"`
	Generator Generator `json:"generator"`
	FastCGI   *FastCGI  `json:"fastCGI,omitempty"` // nil unless that was spoken

	// Head is the head of the first response.
	Head string `json:"head,omitempty"`
	// Samples are as many requests as the plan has kept, in the order in which they ended.
	Samples []Sample `json:"-"`
	// Windows are, for each thread, how many responses came in each tenth of a second. The
	// last window of a thread may be shorter. A Session's Result has none.
	Windows [][]uint32 `json:"-"`
}

// Sample is one request that was answered, or failed. Times count from when measuring began.
type Sample struct {
	// Connect is how long the connection took to be made, TLS included, if that was made for
	// this request; 0 if it was there.
	Connect time.Duration
	// Due is when it was to be sent, Sent when it began to be, First when the first byte of
	// its response came (0: none) and Done the last byte, or the failure.
	Due, Sent, First, Done time.Duration

	Connection int32 // which of the plan's, from 0
	Request    int32 // which of the plan's List, from 0
	Status     int32 // 0 if there was no response
	Kept       bool  // the connection was used for it not as the last time
	Failure    Failure
	Body       int64 // bytes of the response's body
	Bytes      int64 // of the whole response
}

// Failure is why a request failed.
type Failure uint8

const (
	NoFailure     Failure = iota // it did not
	FailedConnect                // no connection could be made for it
	FailedRead                   // the connection ended, or brought what is no response
	FailedWrite                  // it could not be sent
	FailedTimeout                // there was no whole response in time
	FailedStatus                 // the response had a status of 400 and above, or one that was not expected
	FailedBody                   // the response had another body than expected
	FailedHeader                 // the response lacked an expected header field
)

// Errors counts what went wrong while measuring, by kind.
type Errors struct {
	Connect uint64 `json:"connect"` // no connection was made
	Read    uint64 `json:"read"`    // the connection ended, or brought what is no response, or a refusal
	Write   uint64 `json:"write"`   // the request could not be sent
	Timeout uint64 `json:"timeout"` // no connection or response in time
	Status  uint64 `json:"status"`  // responses of status 400 and above, or that was not expected
	Body    uint64 `json:"body"`    // responses with another body than expected
	Header  uint64 `json:"header"`  // responses without an expected header field

	// First is the text of the first error, which may be one from before measuring.
	First string `json:"first,omitempty"`
}

// Total returns the number of errors of all kinds.
func (e Errors) Total() uint64 {
	return e.Connect + e.Read + e.Write + e.Timeout + e.Status + e.Body + e.Header
}

// of returns the count of one kind.
func (e *Errors) of(f Failure) *uint64 {
	return [...]*uint64{
		FailedConnect: &e.Connect, FailedRead: &e.Read, FailedWrite: &e.Write, FailedTimeout: &e.Timeout,
		FailedStatus: &e.Status, FailedBody: &e.Body, FailedHeader: &e.Header,
	}[f]
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
	Requests uint64 `json:"requests"`
	Bytes    uint64 `json:"bytes"`
	Errors   uint64 `json:"errors"`
	// Latency is like the Result's, of this second. After the first hour it is not kept.
	Latency hist.Packed `json:"latency"`
}

// Generator is what generating the load cost, in the measured time.
type Generator struct {
	UserSeconds float64 `json:"userSeconds"`
	SysSeconds  float64 `json:"sysSeconds"`
	// Busy is the busiest thread's share of one processor, 0 to 1. Near 1 the
	// generator, not the server, may have set the pace.
	Busy float64 `json:"busy"`
	// Lag is by how much later than it was due a request of an open loop was sent that had a
	// connection at rest: the generator's own fault. Nil in a closed loop.
	Lag *hist.Histogram `json:"lag,omitempty"`
}

// When to doubt a result.
const (
	// BusyBound is the share of a processor from which on a thread of the generator may
	// have set the pace.
	BusyBound = 0.9
	// lagBound is how late the generator may send one request in a hundred: as a share of
	// the median latency, and anyway.
	maxLagShare, minLag = 0.1, 100 * time.Microsecond
	// answeredBound is the share of requests due that is to be answered.
	minResponseShare = 0.99
)

// Doubts says why the figures may be the generator's or the plan's rather than the server's;
// nothing if nothing speaks for that.
func (r *Result) Doubts() (doubts []string) {
	say := func(format string, args ...any) { doubts = append(doubts, fmt.Sprintf(format, args...)) }
	g := &r.Generator
	if g.Busy >= BusyBound {
		say("the generator was busy %.0f%% of the time: it, not the server, may have set the pace", 100*g.Busy)
	}
	if g.Lag != nil {
		late := g.Lag.Quantile(0.99)
		if bound := max(minLag, time.Duration(maxLagShare*float64(r.Latency.Quantile(0.5)))); late > bound {
			say("the generator was late: it sent one request in a hundred %v or more after it was due, although a connection was free", late.Round(time.Microsecond))
		}
	}
	if answered := float64(r.Requests); r.Asked > 0 && answered < minResponseShare*r.Asked {
		say("of %.0f requests that were due %.0f were answered: the server, or %d connections, were too few for the rate", r.Asked, answered, r.Connections)
	}
	return doubts
}

// PerSecond returns the rate of requests.
func (r *Result) PerSecond() float64 {
	if r.Seconds == 0 {
		return 0
	}
	return float64(r.Requests) / r.Seconds
}

// PerCPUSecond returns how many requests a second of the generator's processor time
// was enough for.
func (r *Result) PerCPUSecond() float64 {
	cpu := r.Generator.UserSeconds + r.Generator.SysSeconds
	if cpu == 0 {
		return 0
	}
	return float64(r.Requests) / cpu
}

// ConnectError is what Run returns when no connection could be made at all.
type ConnectError struct {
	URL   string
	First string // the first of the reasons
}

func (e *ConnectError) Error() string { return "load: no connection to " + e.URL + ": " + e.First }
