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
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/privilege"
)

// unprivileged is whom root's server becomes if nobody else is named, as nginx.
const defaultUser = "nobody"

// frontPlan is what a command line with an nginx.conf means.
type frontPlan struct {
	file, prefix string // absolute; prefix is empty if it was not given
	user, group  string // instead of the file's
	lenient      bool
	test         bool
	grace        time.Duration
}

// frontServer is serve with an nginx.conf, while it runs. What is nil is not there, or not yet.
type frontServer struct {
	plan      *frontPlan
	stderrLog stderrLog
	stdout    io.Writer
	stderr    io.Writer
	passed    *listen.Passed

	privileges *privilege.Plan
	certs      *certStore
	logs       *logFiles
	pid        string // the file that was written
	errors     *errorFile
	sockets    []*socket
	failed     chan error    // of servers
	config     *front.Config // that is served
	handler    *front.Handler
	tlsTable   atomic.Pointer[tlsTable]

	stopping    chan struct{}  // closed when all is to end
	draining    sync.WaitGroup // of servers that were replaced, or given up
	mu          sync.Mutex
	active      map[*activeServer]bool // these, and all others
	closedConns int64                  // connections that were accepted by what serves no more
}

// runFront serves what an nginx.conf says until it is told to end. The order is what runServe's is: what needs privileges, giving
// them up, and then all else.
func runFront(ctx context.Context, env Env, plan *frontPlan) (err error) {
	result, err := plan.read()
	if err != nil {
		return reportInvalidConfig(env.Stderr, plan, err)
	}
	s := &frontServer{
		plan: plan, stderrLog: newStderrLog(env.Stderr), stdout: env.Stdout, stderr: env.Stderr, certs: newCertStore(), failed: make(chan error, 1), stopping: make(chan struct{}), active: make(map[*activeServer]bool),
	}
	s.logs = newLogFiles(s.stdout)
	defer s.stderrLog.close()
	if plan.test {
		if err := s.validate(result); err != nil {
			return reportInvalidConfig(env.Stderr, plan, err)
		}
		s.printMessages(result, true)
		s.stderrLog.print(plan.file + ": the configuration is good")
		return nil
	}
	s.printMessages(result, false)
	defer func() { err = errors.Join(err, s.close()) }()
	signals := s.notify() // whoever reads the number of the process from its file may send some
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

// read reads the file.
func (p *frontPlan) read() (*nginxconf.Result, error) {
	result, err := nginxconf.Parse(p.file, nginxconf.Options{Prefix: p.prefix, Lenient: p.lenient})
	if err == nil && len(result.Config.Hosts) == 0 { // as a stock nginx.conf whose includes find nothing
		result.Config.Hosts = []front.Host{{Steps: []front.Step{front.Return{Status: http.StatusNotFound}}}}
	}
	return result, err
}

// badConfiguration says all that is wrong, a line for each.
func reportInvalidConfig(w io.Writer, plan *frontPlan, err error) error {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "tare: serve: %s\n", strings.TrimRight(line, "\n"))
	}
	if !plan.lenient && errors.Is(err, nginxconf.ErrRefused) {
		fmt.Fprintln(w, "tare: serve: --lenient leaves out what is not done here")
	}
	fmt.Fprintf(w, "tare: serve: %s: the configuration is not good\n", plan.file)
	return &exitError{code: exitUsage}
}

// sayMessages says what there is to say of a file that is good. Notes are many, and said by -t only.
func (s *frontServer) printMessages(result *nginxconf.Result, all bool) {
	for _, m := range result.Ignored {
		s.stderrLog.print("left out: " + m.Error())
	}
	for _, m := range result.Warnings {
		s.stderrLog.print("warning: " + m.Error())
	}
	if !all && len(result.Noted) > 0 {
		s.stderrLog.print(fmt.Sprintf("%d directives mean nothing here, or something else: -t says which", len(result.Noted)))
		return
	}
	for _, m := range result.Noted {
		s.stderrLog.print("note: " + m.Error())
	}
}

// try does what start would, but for sockets, files and privileges.
func (s *frontServer) validate(result *nginxconf.Result) error {
	_, err := s.newPrivileges(&result.Process)
	if err == nil {
		err = s.certs.load(&result.Config, s.stderrLog.print)
	}
	defer s.certs.close()
	if err != nil {
		return err
	}
	handler, err := front.New(result.Config, front.LogErrors(s.stderrLog.logger()), front.OpenLogs(checkLogPath), front.CachesInMemory())
	if err != nil {
		return err
	}
	return handler.Close()
}

// canOpenLog is for who does not want to write a log.
func checkLogPath(path string) (io.WriteCloser, error) {
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder", filepath.Dir(path))
	}
	return nopCloser{io.Discard}, nil
}

// newPowers looks up whom to become.
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
		s.stderrLog.print(fmt.Sprintf("warning: user %s: only root can become somebody else: this stays %d", process.User, os.Geteuid()))
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

// start makes the handler and the servers, and says what is served.
func (s *frontServer) start(result *nginxconf.Result, outcome *privilege.Outcome) error {
	var err error
	s.handler, err = front.New(result.Config, front.LogErrors(s.errors.logger()), front.OpenLogs(s.logs.open), front.CountConnections(s.connections))
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
		s.stderrLog.print("on " + urlOf(socket.base, socket.TLS))
	}
	s.stderrLog.print("as " + describeUser(outcome))
	if outcome.UID == 0 {
		s.stderrLog.print("root serves this: give a user to have somebody else do it")
	}
	s.certs.watch(func(text string) { s.stderrLog.print(text + cannotReloadText(outcome)) })
	return nil
}

func cannotReloadText(o *privilege.Outcome) string {
	return fmt.Sprintf("; %s cannot read it again, a new one needs a new start", userName(o))
}
