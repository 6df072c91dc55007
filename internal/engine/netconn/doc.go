// Package netconn serves any net.Conn with a goroutine: those of a program's own listeners, TLS
// connections that speak another protocol than HTTP/1, and all connections on systems other than
// Linux.
//
// A worker goroutine waits for a connection's input and runs its handlers until the connection
// ends. A connection that speaks HTTP/2 is handed to its Owner. Read conn.go, then workers.go.
package netconn
