package shard

// Dispatch selects where the handlers of shards run. The goroutine path ignores it, because each of
// its connections has a goroutine.
type Dispatch uint8

const (
	// Predicted runs handlers on the loop whose route has been quick, and the others in
	// goroutines of their own. It is the default.
	Predicted Dispatch = iota
	// OnLoop runs all handlers on the loop, which is best if none ever blocks. A handler that
	// does block is moved off the loop after a delay.
	OnLoop
	// OwnGoroutine runs no handler on the loop.
	OwnGoroutine
)
