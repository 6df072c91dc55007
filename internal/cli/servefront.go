package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/privilege"
)

// defaultUser is the user that a server started as root becomes by default, as in nginx.
const defaultUser = "nobody"

// frontPlan is a parsed command line with an nginx.conf.
type frontPlan struct {
	file, prefix string // absolute; prefix may be empty
	user, group  string // override the file's
	lenient      bool
	test         bool
	grace        time.Duration
}

// frontServer is the running server of tare serve -c FILE. Unused or unopened parts are nil.
type frontServer struct {
	plan      *frontPlan
	stderrLog stderrLog
	stdout    io.Writer
	stderr    io.Writer
	passed    *listen.Passed

	privileges *privilege.Plan
	certs      *certStore
	logs       *logFiles
	pid        string // the PID file that was written
	errors     *errorFile
	sockets    []*socket
	failed     chan error   // receives errors of servers
	config     *conf.Config // the served configuration
	handler    *front.Handler
	tlsTable   atomic.Pointer[tlsTable]

	stopping    chan struct{}  // closed when shutdown starts
	draining    sync.WaitGroup // shutdowns of replaced and removed servers
	mu          sync.Mutex
	active      map[*activeServer]bool // the servers of sockets, and those that are draining
	closedConns int64                  // connections accepted by servers that have ended
}

// runFront serves an nginx.conf until a signal. Its order is that of runServe: privileged steps,
// giving up privileges, everything else.
func runFront(ctx context.Context, env Env, plan *frontPlan) (err error) {
	result, err := plan.read()
	if err != nil {
		return reportInvalidConfig(env.Stderr, plan, err)
	}
	s := &frontServer{
		plan: plan, stderrLog: newStderrLog(env.Stderr), stdout: env.Stdout, stderr: env.Stderr, certs: newCertStore(),
		failed: make(chan error, 1), stopping: make(chan struct{}), active: make(map[*activeServer]bool),
	}
	s.logs = newLogFiles(s.stdout)
	defer s.stderrLog.close()
	if plan.test {
		if err := s.validate(result); err != nil {
			return reportInvalidConfig(env.Stderr, plan, err)
		}
		s.printMessages(result, true)
		s.stderrLog.print(plan.file + ": the configuration is valid")
		return nil
	}
	s.printMessages(result, false)
	defer func() { err = errors.Join(err, s.close()) }()
	signals := s.notify() // signals may arrive once the PID file exists
	defer signals.stop()
	outcome, err := s.open(result)
	if err != nil {
		return err
	}
	if err := s.start(result, outcome); err != nil {
		return err
	}
	return s.serve(ctx, signals, result.Process.Grace)
}

// read parses the file.
func (p *frontPlan) read() (*nginxconf.Result, error) {
	result, err := nginxconf.Parse(p.file, nginxconf.Options{Prefix: p.prefix, Lenient: p.lenient})
	if err == nil && len(result.Config.Hosts) == 0 { // a stock nginx.conf whose includes match no files
		result.Config.Hosts = []conf.Host{{Steps: []conf.Step{conf.Return{Status: http.StatusNotFound}}}}
	}
	return result, err
}

// reportInvalidConfig prints all errors, one per line.
func reportInvalidConfig(w io.Writer, plan *frontPlan, err error) error {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "tare: serve: %s\n", strings.TrimRight(line, "\n"))
	}
	if !plan.lenient && errors.Is(err, nginxconf.ErrUnsupported) {
		fmt.Fprintln(w, "tare: serve: --lenient ignores unsupported directives")
	}
	fmt.Fprintf(w, "tare: serve: %s: the configuration is invalid\n", plan.file)
	return &exitError{code: exitUsage}
}

// printMessages prints the messages about a valid file. Notes are many, and printed only by -t.
func (s *frontServer) printMessages(result *nginxconf.Result, all bool) {
	for _, m := range result.Ignored {
		s.stderrLog.print("ignored: " + m.Error())
	}
	for _, m := range result.Warnings {
		s.stderrLog.print("warning: " + m.Error())
	}
	if !all && len(result.Noted) > 0 {
		s.stderrLog.print(fmt.Sprintf("%d directives have no effect or a different one: -t lists them",
			len(result.Noted)))
		return
	}
	for _, m := range result.Noted {
		s.stderrLog.print("note: " + m.Error())
	}
}

// validate does what start would, but opens no sockets and files and keeps its privileges.
func (s *frontServer) validate(result *nginxconf.Result) error {
	_, err := s.newPrivileges(&result.Process)
	if err == nil {
		err = s.certs.load(&result.Config, s.stderrLog.print)
	}
	defer s.certs.close()
	if err != nil {
		return err
	}
	handler, err := front.New(result.Config, front.LogErrors(s.stderrLog.logger()), front.OpenLogs(checkLogPath),
		front.CachesInMemory())
	if err != nil {
		return err
	}
	return handler.Close()
}

// checkLogPath stands in for opening a log: it only checks that the folder exists.
func checkLogPath(path string) (io.WriteCloser, error) {
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", filepath.Dir(path))
	}
	return nopCloser{io.Discard}, nil
}

// newPrivileges looks up the user to become.
func (s *frontServer) newPrivileges(process *nginxconf.Process) (*privilege.Plan, error) {
	config := privilege.Config{User: s.plan.user, Group: s.plan.group, Sandbox: privilege.Auto, Reaching: true}
	root := os.Geteuid() == 0
	switch {
	case config.User != "":
	case root && process.User != "":
		config.User, config.Group = process.User, process.Group
	case root:
		config.User = defaultUser
	case process.User != "":
		s.stderrLog.print(fmt.Sprintf("warning: user %s: only root can change the user: still running as %d",
			process.User, os.Geteuid()))
	}
	return privilege.NewPlan(config)
}

// open does what may need privileges, and gives them up.
func (s *frontServer) open(result *nginxconf.Result) (*privilege.Outcome, error) {
	var err error
	if s.passed, err = listen.Inherit(); err != nil {
		return nil, err
	}
	if s.privileges, err = s.newPrivileges(&result.Process); err != nil {
		return nil, usageError(err)
	}
	if err := s.certs.load(&result.Config, s.stderrLog.print); err != nil {
		return nil, usageError(err)
	}
	if err := s.logs.prepare(logPaths(result), s.privileges); err != nil {
		return nil, usageError(err)
	}
	if err := prepareCaches(result.Config.Caches, s.privileges); err != nil {
		return nil, usageError(err)
	}
	if s.errors, err = openErrorFile(result.Process.ErrorLog, s.logs, s.stderrLog); err != nil {
		return nil, usageError(err)
	}
	if err := s.openSockets(result.Process.Listeners); err != nil {
		return nil, err
	}
	if err := s.writePID(result.Process.PID); err != nil {
		return nil, err
	}
	s.limits(&result.Process)
	preloadTables()
	return s.privileges.Apply(privilege.Folders{})
}

// start creates the handler and the servers and prints what is served.
func (s *frontServer) start(result *nginxconf.Result, outcome *privilege.Outcome) error {
	var err error
	s.handler, err = front.New(result.Config, front.LogErrors(s.errors.logger()), front.OpenLogs(s.logs.open),
		front.CountConnections(s.connections))
	if err != nil {
		return reportInvalidConfig(s.stderr, s.plan, err)
	}
	s.config = &result.Config
	s.tlsTable.Store(newTLSTable(s.config, s.certs))
	s.stderrLog.print("serving " + s.plan.file)
	for _, socket := range s.sockets {
		l, err := duplicate(socket.base)
		if err != nil {
			return err
		}
		s.startSocket(socket, l)
		s.stderrLog.print("listening on " + urlOf(socket.base, socket.TLS))
	}
	s.stderrLog.print("running as " + describeUser(outcome))
	if outcome.UID == 0 {
		s.stderrLog.print("warning: running as root; set a user to drop privileges")
	}
	s.certs.watch(func(text string) { s.stderrLog.print(text + cannotReloadText(outcome)) })
	return nil
}

func cannotReloadText(o *privilege.Outcome) string {
	return fmt.Sprintf("; %s cannot reload it, so a new one requires a restart", userName(o))
}
