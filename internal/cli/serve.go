package cli

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/privilege"
)

func serveCommand(env Env) *cobra.Command {
	flags := new(serveFlags)
	c := &cobra.Command{
		Use:   "serve [DIR | -c FILE]",
		Short: "Serve the files of a folder, or what an nginx.conf says",
		Long: `Serve the files of DIR, or of the current folder, over HTTP, and over HTTPS and HTTP/2 with --cert.

With -c FILE serve what an nginx.conf says: hosts, locations, upstreams, caches, limits, logs, in this
one process. What nginx does and is not done here is an error that names file and line, or is left
out and said with --lenient. -t says whether FILE is good, and what of it means nothing here; -p is
then nginx's prefix, below which relative paths are. Beside those only --user, --group and --grace
go with it. With a DIR or --key, -c is the certificate, as it is without a configuration.

Started as root it opens its ports, logs and keys, and then becomes --user, for good; with
--chroot DIR is all it can see. What it serves, where and as whom is said on standard error.

--listen takes, as often as needed:

  HOST:PORT, [IPV6]:PORT  one address
  :PORT                   all addresses; --port PORT is the same
  unix:PATH               a unix socket
  systemd, systemd:NAME   the sockets that the service manager passed, or those of a name. They are
                          what is served if neither --listen nor --port is given

Signals:

  SIGTERM, SIGINT  finish the requests that have begun, for --grace at most, and end
  SIGQUIT          finish them, however long that takes, and end
  SIGHUP           read the certificate again, as happens when it changes; without one, as SIGTERM,
                   or nothing under nohup.
                   With -c FILE, read that again: if anything is wrong with it nothing changes
  SIGUSR1          open the logs again, after they were renamed

The exit code is 0 after a signal, 1 if something failed or requests were cut off, and 2 if the
command line or FILE is wrong.`,
		Example: `  tare serve                                          # the current folder, on port 8080
  tare serve public -p 80 -u www-data -r              # as www-data, who sees nothing but public
  tare serve public -p 443 -c cert.pem -k key.pem -u www-data --access-log /var/log/tare.log
  tare serve public --listen 127.0.0.1:8080 --listen '[::1]:8080' --listen unix:/run/tare.sock
  tare serve -c /etc/nginx/nginx.conf -t && tare serve -c /etc/nginx/nginx.conf`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("serve: want one folder, got %d", len(args))
			}
			return nil
		},
		RunE: run(func(ctx context.Context, args []string) error {
			if err := flags.serve(ctx, env, args); err != nil {
				return serveFailure(err)
			}
			return nil
		}),
	}
	c.Version = "tare" // what is printed is the template
	c.SetVersionTemplate(versionLine() + "\n")
	c.Flags().SortFlags = false
	flags.define(c)
	return c
}

// serveFailure names the command in an error, and keeps its exit code.
func serveFailure(err error) error {
	if e, ok := errors.AsType[*exitError](err); ok && e.err == nil {
		return err // it was said already
	} else if ok {
		return &exitError{e.code, fmt.Errorf("serve: %w", err)}
	}
	return fmt.Errorf("serve: %w", err)
}

// runServe serves until it is told to end. The order is what makes giving up privileges work: names are looked up, files and
// ports opened while that is allowed; then it is given up, verified, and only then is anything served.
func runServe(ctx context.Context, env Env, plan *servePlan) (err error) {
	privileges, err := privilege.NewPlan(plan.privilege)
	if err != nil {
		return usageError(err)
	}
	stderrLog := newStderrLog(env.Stderr)
	defer stderrLog.close()
	s := &fileServer{plan: plan, stderrLog: stderrLog}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(env, privileges); err != nil {
		return err
	}
	signals := s.notify()
	defer signals.stop()
	if err := s.listen(); err != nil {
		return err
	}
	preloadTables()
	outcome, err := privileges.Apply(s.folders())
	if err != nil {
		return err
	}
	if err := s.start(outcome); err != nil {
		return err
	}
	return s.serve(ctx, signals)
}

// loadTables has the libraries read what they read once, while they can.
func preloadTables() {
	_ = mime.TypeByExtension(".html")
	_, _ = time.Now().Zone()
}

// listen opens the listeners.
func (s *fileServer) listen() error {
	passed, err := listen.Inherit()
	if err != nil {
		return err
	}
	specs := s.plan.listeners
	if len(specs) == 0 && passed.Any() {
		specs = []listen.Spec{{Network: listen.Systemd}}
	} else if len(specs) == 0 {
		specs = []listen.Spec{listen.Port(defaultPort)}
	}
	if s.listeners, err = listen.All(specs, listen.Options{SocketMode: s.plan.socketMode, Stall: sendTimeout}, passed); err != nil {
		return fmt.Errorf("--listen %w", err)
	}
	for _, l := range s.listeners {
		if u, ok := l.(*net.UnixListener); ok && s.plan.privilege.Chroot {
			u.SetUnlinkOnClose(false) // its path leads elsewhere by then
		}
	}
	return nil
}

// folders are those that stay within reach: what is served, and where the log and the keys are.
func (s *fileServer) folders() privilege.Folders {
	f := privilege.Folders{Served: s.dir}
	if s.plan.privilege.Chroot && (s.plan.privilege.Sandbox == privilege.Off || privilege.LandlockVersion() == 0) {
		s.releaseAnchors() // nothing else would keep whoever takes over from leaving the root by them
		return f
	}
	keep := func(dirs []*os.File, access privilege.Access) {
		for _, dir := range dirs {
			f.Keep = append(f.Keep, privilege.Folder{File: dir, For: access})
		}
	}
	for _, a := range s.keys {
		keep(a.Dirs(), privilege.Read)
	}
	if s.logFile != nil {
		keep(s.logFile.Dirs(), privilege.Write)
	}
	keep(s.socketDirs, privilege.Remove)
	return f
}
