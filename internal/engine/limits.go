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
)
