package load

import "github.com/tarehq/tare/internal/wire/http1"

// protocol is what differs between HTTP/1, HTTP/2 and FastCGI. Connections, timeouts and counters
// are the same for all.
type protocol interface {
	// defaultPort is the port of a URL without one.
	defaultPort(secure bool) string
	// render appends the bytes of a request; last marks the last request of its connection.
	render(dst []byte, q *request, to address, last bool) []byte
	// newReader returns the reader of a worker's connection.
	newReader(s *readerShared) reader
}

// isFastCGI reports whether a protocol is FastCGI. A connection carries one request at a time, and
// the server may close it after any response, which cannot announce that. Requests have parameters.
func isFastCGI(p protocol) bool { return p == protocol(fcgiProtocol{}) }

// reader parses the responses on one connection from input in pieces of any size.
type reader interface {
	// consume parses up to one response from in and returns how many bytes it used. It uses all of
	// them unless the response completes earlier. After an error, call reset before the next call.
	consume(in []byte, a *response) (n int, err error)
	// untilClose reports whether closing the connection ends the response's body.
	untilClose() bool
	// reset prepares r for a new connection.
	reset()
}

// readerShared is what the readers of one worker share.
type readerShared struct {
	tally       *tally
	expected    *expectation
	maxInFlight int            // limit of concurrent requests on a connection
	response    http1.Response // the head that HTTP/1's readers parse
	cgi         http1.CGI      // the head that FastCGI's readers parse
}

// response is the parser's state for one response.
type response struct {
	stage  stage
	status int   // set from inBody on
	last   bool  // the server closes the connection after it; set from inBody on
	body   int64 // bytes of the body received

	slot    int          // of the request; -1 if there is none
	isHead  bool         // the request was HEAD: no body, whatever the head says
	checked *check       // verifies it; nil if only the status matters
	events  *eventStream // counts its events; nil if it has none

	// Only HTTP/2 sets these.
	streamError  string // why the request failed, if the connection did not
	refused      bool   // the server did not process the request
	goAway       bool   // the server accepts no more requests on the connection
	lastStreamID uint32 // the server ignores streams above this ID
}

// begin starts a final response.
func (a *response) begin(status int, last bool) {
	a.stage, a.status, a.last, a.body, a.events = inBody, status, last, 0, nil
}

func (a *response) data(piece []byte) {
	a.body += int64(len(piece))
	if a.checked != nil {
		a.checked.data(piece)
	}
	if a.events != nil {
		a.events.data(piece)
	}
}

// stage is the part of a response that has arrived.
type stage uint8

const (
	beforeHead stage = iota // or only interim responses
	inHead
	inBody // the head is complete
	complete
)

const (
	// maxHead and maxFields limit a response's head.
	maxHead   = 64 << 10
	maxFields = 256
)

func headLimits() http1.Limits { return http1.Limits{Bytes: maxHead, Fields: maxFields} }
