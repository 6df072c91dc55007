package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tarehq/tare/upgrade"
)

// defaultGrace is the default of Options.Grace.
const defaultGrace = 10 * time.Second

// Options are settings that are not in the configuration. The zero value is valid.
type Options struct {
	// Stdout and Stderr replace the process's own for logs and messages. Writes to Stderr never
	// block the server.
	Stdout, Stderr io.Writer

	// Grace is how long requests in progress may take after the end of Run's context, SIGTERM
	// or SIGINT; 0 is 10 seconds, and a negative value none.
	Grace time.Duration

	// Listeners are sockets that are open already, for addresses of the configuration. The
	// server closes them, and it is an error if the configuration does not use all of them. Nil
	// stands for those that the service manager has passed (sd_listen_fds(3)).
	Listeners []net.Listener

	// GetCertificate returns certificates for hosts with TLS, before those of files. If it
	// returns nil and no error, the files of the host are used. It is called by any goroutine.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	// HTTP3 serves HTTP/3: front/http3.New returns one. With nil, listen with quic is an error.
	HTTP3 HTTP3

	// Tracing sends spans to collectors: front/otel.New returns one. With nil, otel_exporter is an
	// error.
	Tracing Tracing

	// DNS sets the records of ACME's challenge dns-01; nil supports none.
	DNS DNSProvider

	// Privileges are what the process gives up.
	Privileges Privileges

	// NoSignals leaves all signals to the program, and NoHangup SIGHUP.
	NoSignals, NoHangup bool

	// Upgrade, if it is not nil, lets another process of the program replace this one: at
	// SIGUSR2, and by Server.Upgrade. States are then reported to the service manager. Of its
	// fields the server sets PIDFile, SocketMode, DrainTimeout, Signals and Logger, and IdleGrace
	// if it is 0: to the longest keepalive_timeout. Listeners must be nil.
	Upgrade *upgrade.Options

	// Prepare is called once everything is open and the privileges have been given up, before
	// the first connection is accepted. If it fails, Run does. At a second signal that ends ctx, Run
	// returns without waiting for it.
	Prepare func(ctx context.Context) error
	// Ready is called when all sockets are served: after the start, and after each reload,
	// whether it succeeded or not. Reloading is called before a reload, and Draining when the
	// server stops accepting connections. They must not block.
	Ready, Reloading, Draining func()
}

// DNSProvider sets TXT records, which prove control of a name to an issuer of certificates
// whose challenge is dns-01.
type DNSProvider interface {
	// Present creates a record. It returns when all of the zone's name servers have it.
	Present(ctx context.Context, name, value string) error
	// CleanUp removes the record.
	CleanUp(ctx context.Context, name, value string) error
}

// Privileges are what the process gives up before it serves. Without a user, here or in the
// configuration, the zero value changes nothing. Changes concern the whole process.
type Privileges struct {
	// User and Group are names or numbers to change to. They replace those of the
	// configuration.
	User, Group string
	// DefaultUser is the User of a process of root if the configuration names none.
	DefaultUser string
	// Root, if it is not nil, is the only directory that remains accessible, besides those of
	// certificates, logs and sockets. Upstreams become inaccessible. The caller closes it.
	Root *os.Root
	// Chroot makes Root the root directory. It requires a user other than root.
	Chroot bool
	// Sandbox selects how the kernel confines the process beyond its user: without new privileges
	// by execve (PR_SET_NO_NEW_PRIVS) and, with Root, by Landlock. "auto" confines it as far as the
	// kernel can, "require" fails if the kernel cannot, and "" does not confine it.
	Sandbox string
}

// A Binding is a handler of the program and the name of its upstream.
type Binding struct {
	name    string
	handler http.Handler
}

// Bind makes handler the upstream with a name: forwarding a request to it is a function call. See
// front.Bind.
func Bind(name string, handler http.Handler) Binding { return Binding{name, handler} }

func (o *Options) grace() time.Duration { return max(cmp.Or(o.Grace, defaultGrace), 0) }

func call(hook func()) {
	if hook != nil {
		hook()
	}
}
