package shard

// Dispatch selects where the handlers of shards run. The goroutine path ignores it, because each of
// its connections has a goroutine.
type Dispatch uint8

const (
	// Predicted runs a handler on the loop if its route has been quick, and in a goroutine of
	// its own otherwise. It is the default.
	Predicted Dispatch = iota
	// OnLoop runs all handlers on the loop, which is best if none ever blocks. A handler that
	// does block is moved off the loop after a delay.
	OnLoop
	// OwnGoroutine runs no handler on the loop.
	OwnGoroutine
)
