// Package quic holds what front/server and front/http3 know of each other: settings and life of a
// server for HTTP/3.
package quic

import (
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tarehq/tare/front/nginxconf"
)

// Config holds what a server for HTTP/3 needs.
type Config struct {
	Conn     *net.UDPConn // the server closes it at its end
	Handler  http.Handler
	TLS      *tls.Config
	ErrorLog *log.Logger
	// Listener has the settings of HTTP/3, and ListenerAt those of a connection by its local
	// address: Conn may be for all addresses of a port.
	Listener   *nginxconf.Listener
	ListenerAt func(local net.Addr) *nginxconf.Listener
	// Rejected logs requests that the server rejects without the Handler: see
	// front.Handler.LogRejected.
	Rejected func(r *http.Request, line string, status int, sent int64)
	// Files passes files to processes that replace this one. It is nil without upgrades.
	Files Files
}

// Files passes files from a process to the one that replaces it: see upgrade.Upgrader. Their names
// begin with "http3 ".
type Files interface {
	AddFile(*os.File)
	RemoveFile(*os.File)
	Files(prefix string) []*os.File
	OnHandover(stop, resume func()) (remove func())
}

// Server serves a UDP socket, from which it reads once Replace has been called.
type Server interface {
	// Replace changes the settings, except Conn and Files. Connections that are open end after their
	// requests in progress, with GOAWAY, and after atMost; 0 is no limit. A server that is new or has
	// been retired accepts connections.
	Replace(c Config, atMost time.Duration)
	// Retire accepts no more connections, and ends those that are open in the same way. If the
	// process is replaced, the other one reads from the socket, and forwards packets.
	Retire(isReplaced bool, atMost time.Duration)
	// IsNeeded reports whether a connection is open, a handshake is in progress or, with forOthers,
	// an older process has connections, whose packets this server forwards.
	IsNeeded(forOthers bool) bool
	// Close closes all connections and the socket.
	Close() error
	// Connections returns the numbers of accepted and of open connections.
	Connections() (accepted, open int64)
}
