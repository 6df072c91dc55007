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

// Bounds of a server that answers GET and HEAD only.
const (
	headTimeout  = 10 * time.Second // for a request's head to arrive
	idleTimeout  = 75 * time.Second // between requests
	sendTimeout  = 60 * time.Second // for a client to take some of what it was sent; how long it takes for all is its affair
	maxHeadBytes = 32 << 10         // bytes
	// gatherLines is the time between two writes of the log. To write each line by itself would cost a tenth of what
	// a request does.
	logFlushInterval = 50 * time.Millisecond
	// logPatience is how long a request waits for a log that takes lines too slowly. After that its line is lost, and counted.
	logWriteTimeout = time.Second
	// logGrace is how long a log may take to be written when all is over.
	logCloseTimeout = 2 * time.Second
)

// fileServer is serve while it runs. What is nil is not there, or not yet.
type fileServer struct {
	plan      *servePlan
	stderrLog stderrLog

	root          *os.Root
	dir           *os.File // root itself
	keys          []*anchor.File
	certs         *certs.Store
	canReloadCert bool // certs can be read again
	log           *spool.Spool
	logFile       *anchor.File
	socketDirs    []*os.File
	listeners     []net.Listener

	handler *files.Handler
	server  *tare.Server
}

// start makes the handler and the server, and says what is served.
func (s *fileServer) start(outcome *privilege.Outcome) (err error) {
	config := s.plan.files
	config.Dir, config.Root = s.plan.dir, s.root
	if outcome.Chroot {
		config.Dir = "/"
	}
	switch s.handler, err = files.New(config); {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not read %s: %w; change its permissions, or --user", userName(outcome), s.plan.dir, err)
	case err != nil:
		return usageError(err)
	}
	handler := http.Handler(s.handler)
	if s.log != nil {
		handler = accesslog.Handler(handler, s.plan.format, s.log)
	}
	s.server = tare.Wrap(&http.Server{
		Handler: handler, ErrorLog: s.stderrLog.logger(), MaxHeaderBytes: maxHeadBytes,
		ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout, DisableGeneralOptionsHandler: true, // so that it is logged
	})
	s.server.SendTimeout = sendTimeout
	if s.log != nil {
		s.server.Refused = func(r tare.Refusal) { _, _ = s.log.Write(s.plan.format.Refused(r.Request, r.Line, r.Status, r.Sent)) }
	}
	if s.certs != nil {
		s.server.TLSConfig = &tls.Config{GetCertificate: s.certs.GetCertificate}
	}
	s.printStartup(outcome)
	return nil
}

// serve serves until a signal says to end, or a listener fails.
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

// shutdown ends when all requests have, or ctx.
func (s *fileServer) shutdown(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		_ = s.server.Close() // what it would say has been said
		return errors.New("requests were cut off that had not ended in time; --grace gives them longer")
	}
	return err
}

// handle does what a signal asks for, and says so.
func (s *fileServer) handle(sig os.Signal) {
	switch sig {
	case syscall.SIGUSR1:
		s.reopenLog()
	case syscall.SIGHUP:
		changed, err := s.certs.Reload()
		switch {
		case err != nil:
			s.stderrLog.print("certificate: the old one is served still: " + err.Error())
		case changed:
			s.stderrLog.print("certificate: a new one is served: " + s.certs.Describe(time.Now()))
		default:
			s.stderrLog.print("certificate: the files hold the one that is served")
		}
	}
}

func (s *fileServer) reopenLog() {
	if s.logFile == nil {
		s.stderrLog.print("access log: there is none that could be opened again")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	if err := s.log.Reopen(ctx); err != nil {
		s.stderrLog.print(fmt.Sprintf("access log: the old file is written still: %v", err))
		return
	}
	s.stderrLog.print("access log: opened again")
}

// serveSignals are those that a server is sent besides the ones that end any command.
type serveSignals struct{ c chan os.Signal }

func (s *fileServer) notify() *serveSignals {
	c := make(chan os.Signal, 8)
	signal.Ignore(syscall.SIGPIPE) // who reads standard output may go; what he missed is counted
	wanted := []os.Signal{syscall.SIGQUIT, syscall.SIGUSR1}
	if s.certs != nil {
		signal.Reset(syscall.SIGHUP) // it ends other commands
		wanted = append(wanted, syscall.SIGHUP)
	}
	signal.Notify(c, wanted...)
	return &serveSignals{c}
}

func (s *serveSignals) stop() { signal.Stop(s.c) }
