package exchange

import "time"

// Limits for which http.Server has no field.
const (
	// maxDrain is how much of the remainder is read to keep the connection, as in net/http.
	maxDrain = 256 << 10

	// drainTime limits how long reading the remainder may take. net/http limits it only by
	// ReadTimeout.
	drainTime = 30 * time.Second

	// NewGrace is how long Shutdown waits for a connection that has sent nothing yet, as in
	// net/http.
	NewGrace = 5 * time.Second

	// lingerTimeout is how long a client that has received the last response may send nothing
	// before the connection is closed, as in net/http, and lingerTime how long it may send.
	lingerTimeout = 500 * time.Millisecond
	lingerTime    = 5 * time.Second
)

// Buffer sizes.
const (
	// holdSize is how much of a body of unknown length is held back until the handler returns
	// and the length is known, as in net/http over HTTP/1. It is also the size of a chunk.
	holdSize = 2 << 10
	// OutSize is how much output is collected before it is written.
	OutSize = 4 << 10
	// keptOut and KeptFields are how much output buffer and how many parsed fields an idle
	// connection keeps.
	keptOut    = 16 << 10
	KeptFields = 64
)
