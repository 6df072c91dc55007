package engine

// Dispatch says where the handlers of sockets run. It means nothing on the portable
// path, where each connection has a goroutine.
type Dispatch uint8

const (
	// Predicted runs those on the loop that have been quick, and the others in
	// goroutines of their own. It is the default.
	Predicted Dispatch = iota
	// OnLoop runs all on the loop, which is best where none ever waits. One that
	// does is moved off it while it runs, after a delay.
	OnLoop
	// OwnGoroutine runs none on the loop.
	OwnGoroutine
)
