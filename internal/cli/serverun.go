package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front/accesslog"
	"github.com/tarehq/tare/front/files"
	"github.com/tarehq/tare/front/spool"
	"github.com/tarehq/tare/internal/anchor"
	"github.com/tarehq/tare/internal/certs"
	"github.com/tarehq/tare/internal/privilege"
)

// Limits of a server that responds to GET and HEAD only.
const (
	headTimeout  = 10 * time.Second // for a request's head
	idleTimeout  = 75 * time.Second // between requests
	sendTimeout  = 60 * time.Second // for a client to receive some bytes; a whole response may take longer
	maxHeadBytes = 32 << 10         // bytes
	// logFlushInterval is the time between two writes of the log. Writing each line by itself
	// would add a tenth to a request's cost.
	logFlushInterval = 50 * time.Millisecond
	// logWriteTimeout is how long a request waits for a slow log. After that, its line is
	// dropped and counted.
	logWriteTimeout = time.Second
	// logCloseTimeout limits the last writes of a log.
	logCloseTimeout = 2 * time.Second
)

// fileServer is the running server of tare serve DIR. Unused or unopened parts are nil.
type fileServer struct {
	plan      *servePlan
	stderrLog stderrLog

	root          *os.Root
	dir           *os.File // the folder of root
	keys          []*anchor.File
	certs         *certs.Store
	canReloadCert bool // the certificate's files are still readable
	log           *spool.Spool
	logFile       *anchor.File
	socketDirs    []*os.File
	listeners     []net.Listener

	handler *files.Handler
	server  *tare.Server
}

// start creates the handler and the server and prints what is served.
func (s *fileServer) start(outcome *privilege.Outcome) (err error) {
	config := s.plan.files
	config.Dir, config.Root = s.plan.dir, s.root
	if outcome.Chroot {
		config.Dir = "/"
	}
	switch s.handler, err = files.New(config); {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot read %s: %w (change its permissions, or --user)", userName(outcome), s.plan.dir,
			err)
	case err != nil:
		return usageError(err)
	}
	handler := http.Handler(s.handler)
	if s.log != nil {
		handler = accesslog.Handler(handler, s.plan.format, s.log)
	}
	s.server = tare.Wrap(&http.Server{
		Handler: handler, ErrorLog: s.stderrLog.logger(), MaxHeaderBytes: maxHeadBytes,
		// so that OPTIONS * is logged
		ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout, DisableGeneralOptionsHandler: true,
	})
	s.server.SendTimeout = sendTimeout
	if s.log != nil {
		s.server.Refused = func(r tare.Refusal) {
			_, _ = s.log.Write(s.plan.format.Rejected(r.Request, r.Line, r.Status, r.Sent))
		}
	}
	if s.certs != nil {
		s.server.TLSConfig = &tls.Config{GetCertificate: s.certs.GetCertificate}
	}
	s.printStartup(outcome)
	return nil
}

// serve serves until a signal or a listener's failure.
func (s *fileServer) serve(ctx context.Context, signals *serveSignals) error {
	watching, stopWatching := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if s.canReloadCert {
			s.certs.Watch(watching)
		}
	}()
	defer func() { stopWatching(); <-watched }()
	failed := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() {
			if s.certs != nil {
				failed <- s.server.ServeTLS(l, "", "")
			} else {
				failed <- s.server.Serve(l)
			}
		}()
	}
	for {
		select {
		case err := <-failed:
			return errors.Join(err, s.server.Close())
		case <-ctx.Done():
			bound, cancel := context.WithTimeout(context.Background(), s.plan.grace)
			defer cancel()
			return s.shutdown(bound)
		case sig := <-signals.c:
			if sig == syscall.SIGQUIT {
				return s.shutdown(ctx)
			}
			s.handle(sig)
		}
	}
}

// shutdown waits for active requests until ctx ends.
func (s *fileServer) shutdown(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		_ = s.server.Close() // the error below covers its error
		return errors.New("requests were aborted at the end of the grace period (raise --grace)")
	}
	return err
}

// handle handles a signal and prints the outcome.
func (s *fileServer) handle(sig os.Signal) {
	switch sig {
	case syscall.SIGUSR1:
		s.reopenLog()
	case syscall.SIGHUP:
		changed, err := s.certs.Reload()
		switch {
		case err != nil:
			s.stderrLog.print("certificate: still serving the old one: " + err.Error())
		case changed:
			s.stderrLog.print("certificate: serving a new one: " + s.certs.Describe(time.Now()))
		default:
			s.stderrLog.print("certificate: unchanged")
		}
	}
}

func (s *fileServer) reopenLog() {
	if s.logFile == nil {
		s.stderrLog.print("access log: there is no file to reopen")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	if err := s.log.Reopen(ctx); err != nil {
		s.stderrLog.print(fmt.Sprintf("access log: reopening failed, still writing the old file: %v", err))
		return
	}
	s.stderrLog.print("access log: reopened")
}

// serveSignals are the signals of a server besides those that end any command.
type serveSignals struct{ c chan os.Signal }

func (s *fileServer) notify() *serveSignals {
	c := make(chan os.Signal, 8)
	signal.Ignore(syscall.SIGPIPE) // the reader of standard output may exit; lost lines are counted
	wanted := []os.Signal{syscall.SIGQUIT, syscall.SIGUSR1}
	if s.certs != nil {
		signal.Reset(syscall.SIGHUP) // it ends other commands
		wanted = append(wanted, syscall.SIGHUP)
	}
	signal.Notify(c, wanted...)
	return &serveSignals{c}
}

func (s *serveSignals) stop() { signal.Stop(s.c) }
