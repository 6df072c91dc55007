// Package netconn serves any net.Conn with a goroutine: those of a program's own listeners, those
// that functions of a program receive, and all connections on systems other than Linux.
//
// A worker goroutine waits for a connection's input and runs its handlers until the connection
// ends. A connection of HTTP/2 has a session of package h2. Read conn.go, then session.go.
package netconn
