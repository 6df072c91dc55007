// Package pairs compares clients with the same server: in the rows of the experiment, with idle
// connections, and with connections that many goroutines share. It has only tests.
package pairs
