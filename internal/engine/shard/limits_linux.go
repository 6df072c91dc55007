package shard

// Buffer sizes.
const (
	// inSize is the input buffer of a runner.
	inSize = 16 << 10
	// leastPartial is the smallest buffer for a head that arrives in pieces.
	leastPartial = 256
)
