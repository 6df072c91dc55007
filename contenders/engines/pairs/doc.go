// Package pairs measures clients beside each other with one server, so that what differs is the
// client's: by pairs in the shape of the experiment's rows, with idle connections, and with
// connections that many goroutines share. It has tests only.
package pairs
