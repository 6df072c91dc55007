package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/acme"
	"github.com/tarehq/tare/internal/privilege"
	"github.com/tarehq/tare/upgrade"
)

var (
	// ErrAborted reports that requests in progress did not end within the grace period, or before a
	// second signal.
	ErrAborted = errors.New("requests were aborted at the end of the grace period, or at a second signal")
	// ErrNotServing is returned by methods of a Server that has not started to serve, or has
	// begun to drain.
	ErrNotServing = errors.New("server: not serving")
)

// Server runs a configuration, once. Make one with New.
type Server struct {
	source  Source
	options Options
	bound   []Binding
	started atomic.Bool

	acmeTiming acme.Timing // shorter in tests

	// set by Run before anything is served
	log        stderrLog
	privileges *privilege.Plan // nil: none are given up
	outcome    *privilege.Outcome
	logs       *logFiles
	front      *front.Handler    // what is served
	program    io.Closer         // Config.Handler, if that can be closed
	failed     chan error        // receives errors of servers
	stopped    <-chan struct{}   // closed when a signal, Drain or the context ends Run; nil in Check
	aborted    context.Context   // ends at a signal that ends requests in progress
	upgrader   *upgrade.Upgrader // nil unless Options.Upgrade is set
	upgrading  sync.Mutex        // held while a new process starts
	tlsTable   atomic.Pointer[tlsTable]
	issued     *acme.Manager
	spans      atomic.Pointer[spanExporter] // nil without otel_exporter

	changes     sync.Mutex // held by reloads and the like; guards what follows
	serving     bool
	hasChild    bool    // a new process starts
	config      *Config // the served configuration
	certs       *certStore
	sockets     []*socket
	quicSockets []*quicSocket // those of HTTP/3, and then removed ones whose connections end
	pid         string        // the PID file that was written
	nextPID     string        // the one to replace when this process takes over

	undrained    context.Context // ends when Drain is called
	requestDrain context.CancelFunc
	stopping     chan struct{}  // closed when shutdown starts
	draining     sync.WaitGroup // shutdowns of replaced and removed servers
	mu           sync.Mutex
	active       map[liveServer]bool // the servers of sockets, and those that are draining
	closedConns  int64               // connections accepted by servers that have ended
}

// New returns a Server that is not running yet. It does nothing else.
func New(source Source, options Options, bound ...Binding) *Server {
	s := &Server{
		source: source, options: options, bound: bound, failed: make(chan error, 1), stopping: make(chan struct{}),
		active: make(map[liveServer]bool), aborted: context.Background(),
	}
	s.undrained, s.requestDrain = context.WithCancel(context.Background())
	return s
}

// Run runs a configuration until ctx ends or a signal arrives: see Server.Run.
func Run(ctx context.Context, source Source, options Options, bound ...Binding) error {
	return New(source, options, bound...).Run(ctx)
}

// Check does what Run would before it serves, but it opens no sockets, creates no files, and gives
// up no privileges. It prints the messages about the configuration, including notes.
func Check(source Source, options Options, bound ...Binding) error {
	s := New(source, options, bound...)
	defer s.open()()
	config, err := s.read()
	if err != nil {
		return err
	}
	if err := s.validate(config); err != nil {
		s.printEach("warning: ", config.Warnings) // one may be the reason
		return err
	}
	s.printMessages(config, true)
	return nil
}

// open makes what every Server needs, and returns a function that closes it.
func (s *Server) open() (close func()) {
	stderr := cmp.Or[io.Writer](s.options.Stderr, os.Stderr)
	s.log = newStderrLog(stderr)
	s.issued = acme.New(acme.Config{Log: s.log.print, DNS: s.options.DNS, Timing: s.acmeTiming})
	s.certs = &certStore{get: s.options.GetCertificate, issued: s.issued,
		served: make(map[conf.CertFiles]*servedCert), sessions: make(sessionCaches)}
	s.logs = &logFiles{stdout: cmp.Or[io.Writer](s.options.Stdout, os.Stdout), stderr: stderr,
		anchored: s.options.Privileges.Root != nil, opened: make(map[string]*openedLog)}
	return s.log.close
}

// Run opens what the configuration names, gives up privileges and serves. It returns when ctx has
// ended, a signal arrived, or a listener failed, after requests in progress have ended: see
// Options.Grace. The error is a *ConfigError, ErrAborted, or one of the system. Run may be called
// once.
//
// While it serves, Go's collector runs after 16 MB of allocations at the earliest, unless GOGC or a
// memory limit is set.
//
// An error after the privileges have been given up in part leaves the process in an undefined
// state: it must exit.
func (s *Server) Run(ctx context.Context) (err error) {
	if !s.started.CompareAndSwap(false, true) {
		return errors.New("server: Run was called before")
	}
	ctx, actions, stopSignals := s.notify(ctx) // they may arrive while the PID file exists
	defer stopSignals()
	defer s.open()()
	defer s.close()
	if err := s.openUpgrader(); err != nil {
		return err
	}
	inherited, err := s.inherit()
	if err != nil {
		return err
	}
	defer inherited.Close()
	err = s.begin(ctx, inherited)
	switch {
	case errors.Is(err, errStopped), ctx.Err() != nil && !s.isServing():
		return nil // to be stopped is no error
	case err != nil:
		return err
	}
	defer spareCollector()()
	call(s.options.Ready)
	return s.serve(ctx, actions)
}

// Addrs returns the addresses of the listening sockets, in the order of the configuration. Those
// of HTTP/3 are last.
func (s *Server) Addrs() []net.Addr {
	s.changes.Lock()
	defer s.changes.Unlock()
	var all []net.Addr
	for _, socket := range s.sockets {
		all = append(all, socket.base.Addr())
	}
	for _, socket := range s.quicSockets {
		if socket.listeners != nil {
			all = append(all, socket.conn.LocalAddr())
		}
	}
	return all
}

// Drain makes Run finish the requests in progress, without accepting new connections, and return,
// as SIGQUIT does. It does not wait.
func (s *Server) Drain() { s.requestDrain() }

// printErrors prints an error, one line for each joined error.
func (s *Server) printErrors(prefix string, err error) {
	for line := range strings.Lines(err.Error()) {
		s.log.print(prefix + strings.TrimRight(line, "\n"))
	}
}

// applyLimits applies the limits of the process. before is the configuration that was served, or
// nil.
func (s *Server) applyLimits(c, before *Config) {
	if n := c.Process.Workers; n > 0 {
		runtime.GOMAXPROCS(n)
	} else if before != nil && before.Process.Workers > 0 {
		runtime.SetDefaultGOMAXPROCS()
	}
	if n := c.Process.Files; n > 0 {
		if err := limitFiles(n); err != nil {
			s.log.print(fmt.Sprintf("warning: worker_rlimit_nofile %d: %v: limit unchanged", n, err))
		}
	}
}
