//go:build !linux && !darwin && !freebsd

package http3

import (
	"crypto/rand"
	"net"

	"github.com/quic-go/quic-go"

	quicserver "github.com/tarehq/tare/front/internal/quic"
)

// connectionIDBytes is the length of connection IDs.
const connectionIDBytes = 12

// sharedConn is a UDP socket. Processes do not replace each other on this system.
type sharedConn struct{ *net.UDPConn }

func newSharedConn(conn *net.UDPConn, _ quicserver.Files) (*sharedConn, error) {
	return &sharedConn{conn}, nil
}

func (*sharedConn) pause()            {}
func (*sharedConn) servesPeers() bool { return false }

// GenerateConnectionID implements quic.ConnectionIDGenerator.
func (*sharedConn) GenerateConnectionID() (quic.ConnectionID, error) {
	var b [connectionIDBytes]byte
	_, _ = rand.Read(b[:]) // it never fails
	return quic.ConnectionIDFromBytes(b[:]), nil
}

// ConnectionIDLen implements quic.ConnectionIDGenerator.
func (*sharedConn) ConnectionIDLen() int { return connectionIDBytes }
