package tare

import "github.com/tarehq/tare/internal/pool"

// TransportCount returns the numbers of a Transport's connections.
func TransportCount(t *Transport) pool.Count { return t.run().Count() }
