package engine

import "time"

// Defaults of http.Server's zero fields, and limits for which it has no field.
const (
	// defaultHeadTimeout limits how long a client may take to send a head: from its first byte
	// on, or for the first request from the start of the connection. It applies if neither
	// ReadHeaderTimeout nor ReadTimeout is set. net/http has no limit then.
	defaultHeadTimeout = 30 * time.Second

	// headSlop is how many bytes beyond MaxHeaderBytes net/http reads before it rejects a head.
	headSlop = 4096

	// maxFields limits the field lines of a head. A limit in bytes is not enough: an empty
	// field costs the client four bytes and the server a map entry.
	maxFields = 1000

	// maxTrailerBytes and maxTrailerFields limit a trailer section.
	maxTrailerBytes  = 8 << 10
	maxTrailerFields = 100

	// maxDrain is how much of the remainder is read to keep the connection, as in net/http.
	maxDrain = 256 << 10

	// drainTime limits how long that may take. net/http limits it only by ReadTimeout.
	drainTime = 30 * time.Second

	// newGrace is how long Shutdown waits for a connection that has sent nothing yet, as in
	// net/http.
	newGrace = 5 * time.Second

	// lingerTime and lingerBytes limit the reading from a client that has received a response
	// before its request was read to the end. Closing at once would reset the connection and
	// lose the response.
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// Buffer sizes.
const (
	// inSize is the input buffer of a connection. It grows only for larger heads.
	inSize = 4 << 10
	// shardInSize is the input buffer of a runner on a shard.
	shardInSize = 16 << 10
	// leastPartial is the smallest buffer for a head that arrives in pieces.
	leastPartial = 256
	// holdSize is how much of a body of unknown length is held back until the handler returns
	// and the length is known, as in net/http. It is also the size of a chunk.
	holdSize = 2 << 10
	// outSize is how much output is collected before it is written.
	outSize = 4 << 10
	// keptOut and keptFields are how much output buffer and how many parsed fields an idle
	// connection keeps.
	keptOut    = 16 << 10
	keptFields = 64
	// copySize is the buffer for copying a source that the kernel cannot copy.
	copySize = 32 << 10
)
