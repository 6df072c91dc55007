// Package poll reports which sockets are ready. It also has the system calls on sockets that never
// block.
//
// It works on Linux. Elsewhere it compiles, and New and all other functions return
// errors.ErrUnsupported.
package poll

// Event is what happened to a descriptor since it was last reported.
type Event struct {
	ID       int  // the id passed to Add
	Readable bool // there is input, or its end
	Writable bool // there is room for output, or the connection is established
	Ended    bool // the peer has closed its side, or the connection failed

	// Tag is what was passed to Loop.Add with the ID. If the ID is a descriptor, the kernel may have
	// reused it since the event happened. A tag tells its connections apart.
	Tag uint32
}
