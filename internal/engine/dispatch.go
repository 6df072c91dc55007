package engine

import "github.com/tarehq/tare/internal/engine/shard"

// Dispatch selects where the handlers of shards run.
type Dispatch = shard.Dispatch

// The values of Dispatch.
const (
	Predicted    = shard.Predicted
	OnLoop       = shard.OnLoop
	OwnGoroutine = shard.OwnGoroutine
)
