// Package http3 serves HTTP/3 (RFC 9114) for package front/server, by github.com/quic-go/quic-go.
// A program that does not import it does not carry QUIC.
//
//	options := server.Options{HTTP3: http3.New()}
//
// The configuration selects the addresses: "listen 443 quic" beside "listen 443 ssl". Handlers and
// configurations are those of the other protocols.
//
// # A connection
//
//	handshake   at most 16,384 of a socket, open ones included; Retry if there are many
//	open        requests are served; idle for keepalive_timeout, it is retired
//	retired     GOAWAY was sent: later requests are rejected, which clients repeat elsewhere
//	closed      2 seconds after the last request
//
// A connection is never closed at once when it is idle: a request that is on its way would be lost.
// Settings that change retire the connections that are open. 0-RTT is off: a request in it could be
// replayed by an attacker.
//
// # An address that is removed
//
// A reload that removes an address retires its connections, and closes the socket when they have
// ended. If the address is added again before, the same socket serves on. Meanwhile new
// processes do not receive the socket: nothing would read the packets of its connections.
//
// # Processes that replace each other
//
// All processes of a server have the same UDP socket, and the newest one reads from it. The first
// bytes of a connection ID tell which process has the connection. Packets for older processes are
// forwarded to them over unix sockets, and they send their packets themselves. So the requests of
// connections of an old process finish there, as those of TCP do.
package http3
