package shard

// Buffer sizes.
const (
	// inSize is the input buffer of a connection that is served.
	inSize = 16 << 10
)
