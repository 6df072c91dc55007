// Package poll tells which sockets are ready, and has the calls on sockets that go
// with it and never block.
//
// It works on Linux. Elsewhere it compiles, and New and all other functions return
// errors.ErrUnsupported.
package poll

// Event is what happened to a descriptor since it was last reported.
type Event struct {
	ID       int  // as given to Add
	Readable bool // there is input, or an end of it
	Writable bool // there is room for output, or a connection was made
	Ended    bool // the peer has sent all it will, or the connection failed
}
