package tare

import "github.com/tarehq/tare/internal/pool"

// TransportCount counts the connections of a Transport.
func TransportCount(t *Transport) pool.Count { return t.run().Count() }
