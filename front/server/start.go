package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/privilege"
)

// handlerOptions returns the options of the handler, besides those that Check and Run differ in.
func (s *Server) handlerOptions(more ...front.Option) []front.Option {
	for _, b := range s.bound {
		more = append(more, front.Bind(b.name, b.handler))
	}
	if s.options.Tracing != nil {
		more = append(more, front.ExportSpans(s.exportSpan))
	}
	return more
}

// validate does what openAll and start would, but opens no sockets and files and keeps its
// privileges.
func (s *Server) validate(c *Config) error {
	if err := s.lookUpUser(c); err != nil {
		return err
	}
	defer s.certs.close()
	if err := s.certs.load(&c.Front, s.log.print); err != nil {
		return configError(err)
	}
	if err := s.issued.Check(&c.Front); err != nil {
		return configError(err)
	}
	if err := checkFolders(c); err != nil {
		return configError(err)
	}
	exporter, err := s.newSpanExporter(c, s.log.logger())
	if err != nil {
		return err
	}
	_ = exporter.close() // nothing is queued
	handler, err := front.New(c.Front, s.handlerOptions(front.LogErrors(s.log.logger()),
		front.OpenLogs(checkLogPath), front.CachesInMemory())...)
	if err != nil {
		return configError(err)
	}
	return handler.Close()
}

// checkFolders checks that the folders exist in which a start makes files, folders and sockets. The
// handler checks those of logs and bodies.
func checkFolders(c *Config) error {
	made := map[string]string{c.Process.PID: "pid"}
	for i := range c.Front.Caches {
		made[c.Front.Caches[i].Dir] = fmt.Sprintf("cache %q", c.Front.Caches[i].Name)
	}
	for i := range c.Process.Listeners {
		if path, ok := strings.CutPrefix(c.Process.Listeners[i].Addr, "unix:"); ok && !strings.HasPrefix(path, "@") {
			made[path] = "listen"
		}
	}
	for _, path := range slices.Sorted(maps.Keys(made)) {
		if path == "" {
			continue
		}
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return fmt.Errorf("%s: %s: %w", made[path], path, err)
		}
	}
	return nil
}

// checkLogPath stands in for opening a log: it only checks that the directory exists.
func checkLogPath(path string) (io.WriteCloser, error) {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return accesslog.NopCloser{Writer: io.Discard}, nil
}

// lookUpUser plans which privileges are given up.
func (s *Server) lookUpUser(c *Config) (err error) {
	o, process := &s.options.Privileges, &c.Process
	config := privilege.Config{User: o.User, Group: o.Group, Chroot: o.Chroot, Reaching: o.Root == nil}
	if config.Sandbox, err = privilege.ParseSandbox(o.Sandbox); err != nil {
		return &ConfigError{err, true}
	}
	root, inOptions := os.Geteuid() == 0, o.User != "" || o.Group != "" || o.Chroot
	if !root && s.isSuccessor() { // the process that it replaces has changed the user
		config.User, config.Group, inOptions = "", "", o.Chroot
	}
	switch {
	case inOptions:
	case root && process.User != "":
		config.User, config.Group = process.User, process.Group
	case root && o.DefaultUser != "":
		config.User = o.DefaultUser
	case process.User != "" && !isCurrentUser(process.User):
		s.log.print(fmt.Sprintf("warning: user %s: only root can change the user: still running as %d",
			process.User, os.Geteuid()))
	}
	if config.User == "" && !inOptions && o.Sandbox == "" {
		return nil // nothing is given up
	}
	if s.privileges, err = privilege.NewPlan(config); err != nil {
		return &ConfigError{err, inOptions}
	}
	return nil
}

// isCurrentUser reports whether the process runs as the user with a name.
func isCurrentUser(name string) bool {
	u, err := user.Lookup(name)
	return err == nil && u.Uid == strconv.Itoa(os.Geteuid())
}

// begin does all that precedes serving. It serves nothing if ctx has ended.
func (s *Server) begin(ctx context.Context, inherited *listen.Passed) error {
	config, err := s.read()
	if err != nil || ctx.Err() != nil {
		return err
	}
	s.printMessages(config, false)
	if err := s.openAll(config, inherited); err != nil {
		return err
	}
	if s.options.Prepare != nil {
		err = await(func() error { return s.options.Prepare(ctx) }, s.aborted.Done())
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	return s.start(ctx, config)
}

// openAll does what may need privileges, and gives them up.
func (s *Server) openAll(c *Config, inherited *listen.Passed) error {
	if err := s.lookUpUser(c); err != nil {
		return err
	}
	s.certs.isSingle = c.Handler != nil
	if err := s.certs.load(&c.Front, s.log.print); err != nil {
		return configError(err)
	}
	if err := s.loadIssued(c); err != nil {
		return configError(err)
	}
	if err := s.logs.prepare(logPaths(&c.Front), s.privileges); err != nil {
		return configError(err)
	}
	if err := prepareDirs(&c.Front, s.privileges); err != nil {
		return configError(err)
	}
	if err := s.openSockets(c.Process.Listeners, inherited); err != nil {
		return err
	}
	pid := s.writePID
	if s.isSuccessor() {
		pid = s.preparePID
	}
	if err := pid(c.Process.PID); err != nil {
		return err
	}
	s.applyLimits(c, nil)
	return s.giveUpPrivileges()
}

// loadIssued loads the certificates that are issued by ACME, and prepares their directories for the
// user that will serve.
func (s *Server) loadIssued(c *Config) error {
	if len(c.Front.Issuers) > 0 && s.options.Privileges.Root != nil {
		return errors.New("issuers of certificates require access beyond Privileges.Root")
	}
	uid, _, ok := idsOf(s.privileges)
	if !ok {
		uid = -1
	}
	return s.issued.Load(&c.Front, uid)
}

// giveUpPrivileges gives up what was planned.
func (s *Server) giveUpPrivileges() (err error) {
	if s.privileges == nil {
		s.outcome = &privilege.Outcome{UID: os.Geteuid(), GID: os.Getegid()}
		return nil
	}
	// libraries read their tables while the files are accessible
	_ = mime.TypeByExtension(".html")
	_, _ = time.Now().Zone()
	folders, release, err := s.folders()
	if err != nil {
		return err
	}
	defer release()
	s.outcome, err = s.privileges.Apply(folders)
	return err
}

// folders returns the directories that remain accessible: Root, and those of logs, certificates and
// sockets. release closes what is not needed any more.
func (s *Server) folders() (f privilege.Folders, release func(), err error) {
	o := &s.options.Privileges
	var opened []*os.File
	release = func() {
		for _, file := range opened {
			file.Close()
		}
	}
	if o.Root == nil {
		return f, release, nil
	}
	if f.Served, err = o.Root.Open("."); err != nil {
		return f, release, err
	}
	opened = append(opened, f.Served)
	if o.Chroot {
		for _, socket := range s.sockets {
			if u, ok := socket.base.(*net.UnixListener); ok {
				u.SetUnlinkOnClose(false) // in the new root its path differs
			}
		}
		if o.Sandbox == "" || privilege.LandlockVersion() == 0 {
			s.logs.releaseAnchors() // an intruder could leave the new root through them
			for _, a := range s.certs.anchors() {
				a.Close()
			}
			return f, release, nil
		}
	}
	keep := func(access privilege.Access, dirs ...*os.File) {
		for _, dir := range dirs {
			f.Keep = append(f.Keep, privilege.Folder{File: dir, For: access})
		}
	}
	for _, a := range s.certs.anchors() {
		keep(privilege.Read, a.Dirs()...)
	}
	for _, a := range s.logs.anchors() {
		keep(privilege.Write, a.Dirs()...)
	}
	if o.Chroot {
		return f, release, nil
	}
	for _, socket := range s.sockets {
		if path, ok := strings.CutPrefix(socket.listeners[0].Addr, "unix:"); ok && !strings.HasPrefix(path, "@") {
			dir, err := os.Open(filepath.Dir(path))
			if err != nil {
				return f, release, err
			}
			opened = append(opened, dir)
			keep(privilege.Remove, dir)
		}
	}
	return f, release, nil
}

// start creates the handler and the servers and prints what is served. It serves nothing if ctx has
// ended: a process that stops must not take over from another one.
func (s *Server) start(ctx context.Context, c *Config) (err error) {
	if err := s.openFront(c); err != nil {
		return err
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	defer func() {
		if !s.serving {
			err = errors.Join(err, s.closeFront())
		}
	}()
	if err := s.issued.CheckWritable(); err != nil {
		return configError(err)
	}
	s.config = c
	s.tlsTable.Store(newTLSTable(&c.Front, s.certs))
	startQUIC, err := s.newQUICServers()
	if err != nil || ctx.Err() != nil {
		return err
	}
	if err := s.takeOver(); err != nil {
		return err
	}
	s.log.print("serving " + c.Name)
	for _, socket := range s.sockets {
		s.startSocket(socket)
	}
	startQUIC()
	s.printDifference("listening on ", s.urls(), nil)
	s.printOutcome()
	s.watchCerts()
	s.issued.Start()
	s.printHandlerLog(c)
	s.serving = true
	return nil
}

func (s *Server) watchCerts() {
	s.certs.watch(s.log.print, s.userName()+" cannot reload it, so a new one requires a restart")
}

// inherit returns the sockets that are open already.
func (s *Server) inherit() (*listen.Passed, error) {
	switch {
	case s.upgrader != nil:
		return new(listen.Passed), nil
	case s.options.Listeners != nil:
		return listen.NewPassed(s.options.Listeners), nil
	}
	return listen.Inherit()
}

func (s *Server) printOutcome() {
	s.log.print("running as " + describeUser(s.outcome))
	if s.outcome.UID == 0 {
		s.log.print("warning: running as root; set a user to drop privileges")
	}
	if s.outcome.Unconfined != "" {
		s.log.print("not sandboxed: " + s.outcome.Unconfined)
	}
}

// urls returns the URLs of the addresses that are served.
func (s *Server) urls() (urls []string) {
	for _, socket := range s.sockets {
		for i := range socket.listeners {
			at, l := socket.base.Addr(), &socket.listeners[i]
			if single, err := netip.ParseAddrPort(l.Addr); i > 0 && err == nil {
				at = net.TCPAddrFromAddrPort(single)
			}
			urls = append(urls, urlOf(at, l))
		}
	}
	for _, q := range s.quicSockets {
		if q.listeners != nil {
			at := q.conn.LocalAddr().(*net.UDPAddr)
			urls = append(urls, urlOf((*net.TCPAddr)(at), &q.listeners[0])+", by HTTP/3")
		}
	}
	return urls
}

func urlOf(at net.Addr, l *nginxconf.Listener) string {
	scheme := "http"
	if l.TLS {
		scheme = "https"
	}
	a, ok := at.(*net.TCPAddr)
	switch {
	case !ok:
		return fmt.Sprintf("%s over the unix socket %s", scheme, at)
	case a.IP.IsUnspecified() && l.IPv6Only:
		return fmt.Sprintf("%s://localhost:%d/ and all other IPv6 addresses", scheme, a.Port)
	case a.IP.IsUnspecified():
		return fmt.Sprintf("%s://localhost:%d/ and all other addresses", scheme, a.Port)
	}
	return fmt.Sprintf("%s://%s/", scheme, a)
}

func describeUser(o *privilege.Outcome) string {
	text := fmt.Sprintf("user %d", o.UID)
	if o.User != "" {
		text = fmt.Sprintf("%s (%d), group %s (%d), no other groups", o.User, o.UID, o.Group, o.GID)
	}
	if o.Chroot {
		text += "; chroot to the folder"
	}
	if o.NoNewPrivs {
		text += "; no new privileges"
	}
	if o.Landlock > 0 {
		text += fmt.Sprintf("; sandboxed by Landlock version %d", o.Landlock)
	}
	return text
}

func (s *Server) userName() string {
	if s.outcome.User != "" {
		return s.outcome.User
	}
	return fmt.Sprintf("user %d", os.Geteuid())
}

// openFront makes the handler, after the privileges have been given up.
func (s *Server) openFront(c *Config) error {
	options := s.handlerOptions(front.LogErrors(s.log.logger()), front.OpenLogs(s.logs.open),
		front.CountConnections(s.connections))
	if c.Handler != nil {
		var h http.Handler
		err := await(func() (err error) { h, err = c.Handler(); return err }, s.aborted.Done())
		if err != nil {
			return err
		}
		s.program, _ = h.(io.Closer)
		options = append(options, func(o *core.Options) { o.Handler = h })
	}
	var h *front.Handler
	err := await(func() (err error) { h, err = front.New(c.Front, options...); return err }, s.aborted.Done())
	if err != nil {
		return configError(err)
	}
	s.front = h
	exporter, err := s.newSpanExporter(c, s.front.ErrorLogger())
	if err != nil {
		return errors.Join(err, s.closeFront())
	}
	s.applySpanExporter(exporter)
	return nil
}

// closeFront closes the handler, after its last request.
func (s *Server) closeFront() error {
	err := s.front.Close()
	if s.program != nil {
		_ = s.program.Close() // no request uses it any more
	}
	return err
}

// printHandlerLog prints where the logs of a Config with a Handler are, and whether they can be
// rotated.
func (s *Server) printHandlerLog(c *Config) {
	if c.Handler == nil {
		return
	}
	all := s.logs.anchors()
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if file, err := all[path].Open(logFlags, logMode); err != nil {
			s.log.print(fmt.Sprintf("log %s: %s cannot reopen it, so rotate it by copying and truncating: %v", path,
				s.userName(), err))
		} else {
			file.Close()
			s.log.print("log " + path + ": SIGUSR1 reopens it")
		}
	}
}
