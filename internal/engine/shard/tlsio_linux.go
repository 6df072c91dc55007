package shard

import (
	"crypto/tls"
	"net"

	"github.com/tarehq/tare/internal/poll"
)

// The methods of a shardConn that do over TLS what its other methods do without.

// writeTLS is send.
func (k *shardConn) writeTLS(pieces [][]byte) (written int, err error) {
	t := k.tls
	for _, p := range pieces {
		for len(p) > 0 {
			n, err := t.conn.Write(p[:min(len(p), maxPlaintext)])
			if err != nil {
				return written, err
			}
			written += n
			p = p[n:]
			if len(p) > 0 && t.ciphertext.size() >= sendCiphertext {
				if err := k.sendCiphertext(); err != nil {
					return written, err
				}
			}
		}
	}
	return written, k.sendCiphertext()
}

// sendCiphertext sends all ciphertext, and waits for room if necessary.
func (k *shardConn) sendCiphertext() error {
	c := &k.tls.ciphertext
	err := k.retry("write", waitOutput, func() (done, moved bool, err error) { return c.send(k) })
	if err != nil {
		c.fail(err)
	}
	return err
}

// takeTLS returns the tls.Conn, which from now on uses nc.
func (k *shardConn) takeTLS(nc net.Conn) *tls.Conn {
	tc := k.tls.conn
	k.tls.Conn, k.tls.isTaken = nc, true
	return tc
}

// receive returns input, or poll.ErrAgain if there is none.
func (k *shardConn) receive(p []byte) (int, error) {
	if k.tls != nil {
		return k.tls.receive(p)
	}
	return poll.Recv(int(k.fd), p)
}

// attachTLS prepares for reading what has arrived since the last time. It returns what handlers
// receive as Request.TLS.
func (k *shardConn) attachTLS() *tls.ConnectionState {
	if k.tls != nil {
		k.tls.isDrained, k.tls.hasInput = false, false
	}
	return k.connectionState()
}

// connectionState returns the state of the TLS connection, or nil without TLS.
func (k *shardConn) connectionState() *tls.ConnectionState {
	if k.tls == nil {
		return nil
	}
	return k.tls.state.Load()
}

// hasIdled reports whether a connection that was idle has received parts of records only, or
// messages about the connection. They do not extend the idle timeout.
func (k *shardConn) hasIdled() bool { return k.tls != nil && !k.tls.hasInput }

// awaitsTLS reports whether the handshake is not complete.
func (k *shardConn) awaitsTLS() bool { return k.tls != nil && k.tls.state.Load() == nil }

// closeWriteTLS sends close_notify.
func (k *shardConn) closeWriteTLS() error {
	if err := k.tls.conn.CloseWrite(); err != nil {
		return err
	}
	return k.sendCiphertext()
}

// trySend is TrySend. It encrypts all of b, of which the rest is sent with the next response if
// there is no room.
func (t *tlsLayer) trySend(b []byte) int {
	n, err := t.conn.Write(b)
	if err == nil {
		_, _, _ = t.ciphertext.send(t.below)
	}
	return n
}
