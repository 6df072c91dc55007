package load

import "github.com/tarehq/tare/internal/wire/http1"

// protocol is what HTTP and FastCGI do in different ways. Everything else is the same for
// both: connections, times, counts.
type protocol interface {
	// port is that of a URL without one.
	defaultPort(secure bool) string
	// render appends the bytes of a request; last says that it is the last on its connection.
	render(dst []byte, q *request, to address, last bool) []byte
	// readers makes a reader for each of n connections of a worker.
	newReaders(n int, s readerConfig) []reader
	// takesSeveral reports whether a connection may have several requests under way.
	allowsPipelining() bool
	// takesParams reports whether a plan's parameters mean something.
	acceptsParams() bool
	// announces reports whether a server says in a response that it will close the
	// connection. If it has no way to, it may just do so after any response.
	announcesClose() bool
}

// reader finds responses in what one connection receives, which may come in any pieces.
type reader interface {
	// take consumes n bytes of in and tells a what they hold: all of them, unless the
	// response is whole before. After an error only reset helps.
	consume(in []byte, a *response) (n int, err error)
	// untilClose reports whether the end of the connection ends a response's body.
	untilClose() bool
	// reset makes r ready for a response on a new connection.
	reset()
}

// multiplexer is a reader whose connection carries several exchanges at a time, whose answers
// come in any order, and on which more is sent than requests.
type multiplexer interface {
	reader
	// greet appends what a new connection begins with.
	appendPreface(dst []byte) []byte
	// takes reports whether the server takes one more request besides those under way.
	acceptsRequest(flying int) bool
	// ask appends a request that was rendered, whose answer will have that slot. It reports
	// whether the connection takes no more after it.
	appendRequest(dst, text []byte, isHead bool, slot int) (out []byte, last bool)
	// reply appends what is due in answer to what was taken.
	appendReplies(dst []byte) []byte
	// number tells the request in a slot from those before and after it.
	streamID(slot int) uint32
}

// shared is what the readers of one worker have in common.
type readerConfig struct {
	tally       *tally
	expected    *expectation
	maxInFlight int // requests under way on a connection, at most
}

// answer is how much of a response has come, and what it says.
type response struct {
	stage  stage
	status int   // from inBody on
	last   bool  // the server closes the connection after it; from inBody on
	body   int64 // bytes of the body that have come

	slot    int    // of the request that is answered; -1 if there is none
	isHead  bool   // there is no body, whatever the head says
	checked *check // what looks at it; nil if nothing does

	// These are a multiplexer's.
	streamError  string // why the request failed, and the connection did not
	retry        bool   // it is to be sent again
	goAway       bool   // the server takes no more requests on the connection
	lastStreamID uint32 // it answers none after that
}

// begin begins a final response.
func (a *response) begin(status int, last bool) {
	a.stage, a.status, a.last, a.body = inBody, status, last, 0
}

// data takes in a piece of the body.
func (a *response) data(piece []byte) {
	a.body += int64(len(piece))
	if a.checked != nil {
		a.checked.data(piece)
	}
}

// stage is how much of a response has come.
type stage uint8

const (
	beforeHead stage = iota // or interim responses only
	inHead
	inBody // the head is complete
	complete
)

const (
	// maxHead and maxFields bound a response's head.
	maxHead   = 64 << 10
	maxFields = 256
)

func headLimits() http1.Limits { return http1.Limits{Bytes: maxHead, Fields: maxFields} }
