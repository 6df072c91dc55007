package load

import "github.com/tarehq/tare/internal/wire/http1"

// protocol is what HTTP and FastCGI do in different ways. Everything else is the same for
// both: connections, times, counts.
type protocol interface {
	// port is that of a URL without one.
	port() string
	// render makes the bytes of the request. All connections send the same.
	render(q *request, to address) []byte
	// readers makes a reader for each of n connections of a worker.
	readers(n int, isHead bool, t *tally) []reader
	// takesParams reports whether a plan's parameters mean something.
	takesParams() bool
	// announces reports whether a server says in a response that it will close the
	// connection. If it has no way to, it may just do so after any response.
	announces() bool
}

// reader finds responses in what one connection receives, which may come in any pieces.
type reader interface {
	// take consumes n bytes of in and tells a what they hold: all of them, unless the
	// response is whole before. After an error only reset helps.
	take(in []byte, a *answer) (n int, err error)
	// untilClose reports whether the end of the connection ends a response's body.
	untilClose() bool
	// reset makes r ready for a response on a new connection.
	reset()
}

// answer is how much of a response has come, and what it says. The zero value is none.
type answer struct {
	got    stage
	status int  // from inBody on
	last   bool // the server closes the connection after it; from inBody on
}

// stage is how much of a response has come.
type stage uint8

const (
	nothing stage = iota // or interim responses only
	inHead
	inBody // the head is complete
	whole
)

const (
	// maxHead and maxFields bound a response's head.
	maxHead   = 64 << 10
	maxFields = 256
)

func headLimits() http1.Limits { return http1.Limits{Bytes: maxHead, Fields: maxFields} }
