package tare

import "net"

// PlainConn is a net.Conn whose bytes are those of the connection beneath it: its Read and Write
// add nothing to that connection's. If Accept of a listener returns one, above a *net.TCPConn or a
// *net.UnixConn, Linux's event loops serve it. Without this interface a connection of a listener
// that is not of package net has a goroutine.
//
// ReplaceConn calls f once with the connection beneath, and uses the result instead of it. The
// server calls it before it serves the connection, with an f that may return the same connection.
// From then on it calls neither Read nor Write, but addresses, and Close when the connection has
// ended. Close and deadlines of the PlainConn still work. Hooks receive it if Server.HooksOnLoops
// is set, and so do handlers that hijack the connection; Read and Write then work, too.
type PlainConn interface {
	net.Conn
	ReplaceConn(f func(net.Conn) net.Conn)
}
