package tare

import "github.com/tarehq/tare/internal/client"

// TransportCount returns the numbers of a Transport's connections.
func TransportCount(t *Transport) client.Count { return t.run().Count() }
