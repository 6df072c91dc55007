package engine

import "time"

// What http.Server's zero fields mean here, and what it has no field for.
const (
	// defaultHeadTimeout bounds the time a client may take to send a head, from
	// its first byte on, and on a new connection from the start. It applies when
	// neither ReadHeaderTimeout nor ReadTimeout is set; net/http waits for ever.
	defaultHeadTimeout = 30 * time.Second

	// headSlop is what net/http reads beyond MaxHeaderBytes before it refuses.
	headSlop = 4096

	// maxFields bounds the field lines of a head. Bytes alone do not: an empty
	// field costs a client four bytes and us a map entry.
	maxFields = 1000

	// maxTrailerBytes and maxTrailerFields bound a trailer section.
	maxTrailerBytes  = 8 << 10
	maxTrailerFields = 100

	// maxDrain is how much of a body that its handler left unread is read to
	// keep the connection; it is net/http's number.
	maxDrain = 256 << 10

	// drainTime bounds how long that may take; net/http has no bound but
	// ReadTimeout.
	drainTime = 30 * time.Second

	// newGrace is how long Shutdown leaves a connection that has sent nothing
	// yet; it is net/http's number.
	newGrace = 5 * time.Second

	// lingerTime and lingerBytes bound how long and how much we read from a
	// client to which an answer was sent before its request was read to the end:
	// closing at once would reset the connection and lose the answer.
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// Buffer sizes.
const (
	// inSize is a connection's input buffer. It grows for larger heads only.
	inSize = 4 << 10
	// shardInSize is the input buffer of a runner on a shard.
	shardInSize = 16 << 10
	// leastPartial is the least that is kept for a head that comes in pieces.
	leastPartial = 256
	// holdSize is how much of a body of unknown length is held back in the hope
	// that the handler returns and its length becomes known; net/http's number.
	// It is the size of a chunk, too.
	holdSize = 2 << 10
	// outSize is how much output gathers before it is written.
	outSize = 4 << 10
	// keptOut and keptFields are how much room for output and for fields an idle
	// connection keeps.
	keptOut    = 16 << 10
	keptFields = 64
	// copySize is the buffer that copies a source that cannot be sent directly.
	copySize = 32 << 10
)
