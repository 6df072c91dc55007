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
		Short: "Serve the files of a folder, or what an nginx.conf configures",
		Long: `Serve the files of DIR, or of the current folder, over HTTP, and over HTTPS and HTTP/2 with --cert.

With -c FILE, serve what an nginx.conf configures, in one process: hosts, locations, upstreams,
caches, limits and logs. Unsupported directives are rejected with file and line, or ignored with
--lenient. -t checks FILE and lists directives without effect. -p sets nginx's prefix, which
relative paths start from. Other flags except --user, --group and --grace are rejected. With a DIR
or --key, -c is the certificate.

If started as root, tare opens its ports, logs and keys and then becomes --user for good. With
--chroot it can access only DIR. On standard error it prints what it serves, where and as which user.

--listen accepts these addresses and may be repeated:

  HOST:PORT, [IPV6]:PORT  one address
  :PORT                   all addresses, like --port PORT
  unix:PATH               a unix socket
  systemd, systemd:NAME   the sockets passed by the service manager, or those with a name; the
                          default if there are any and neither --listen nor --port is set

Signals:

  SIGTERM, SIGINT  finish active requests within --grace, and exit
  SIGQUIT          finish active requests without limit, and exit
  SIGHUP           reload the certificate (which also happens when it changes); without one, like
                   SIGTERM, or ignored under nohup.
                   With -c FILE, reload it; an invalid one changes nothing
  SIGUSR1          reopen the logs, after they were renamed

The exit code is 0 after a signal, 1 if something failed or requests were aborted, and 2 if the
command line or FILE is invalid.`,
		Example: `  tare serve                                          # the current folder, on port 8080
  tare serve public -p 80 -u www-data -r              # as www-data, with access to public only
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
	c.Version = "tare" // the template below replaces it
	c.SetVersionTemplate(versionLine() + "\n")
	c.Flags().SortFlags = false
	flags.define(c)
	return c
}

// serveFailure adds the command's name to an error and keeps its exit code.
func serveFailure(err error) error {
	if e, ok := errors.AsType[*exitError](err); ok && e.err == nil {
		return err // it has been printed
	} else if ok {
		return &exitError{e.code, fmt.Errorf("serve: %w", err)}
	}
	return fmt.Errorf("serve: %w", err)
}

// runServe serves files until a signal. The order is essential for giving up privileges. First it
// looks up names and opens files and ports. Then it gives up privileges and verifies that. Only
// then does it serve.
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

// preloadTables makes libraries read their tables while the files are accessible.
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
	if s.listeners, err = listen.All(specs, listen.Options{SocketMode: s.plan.socketMode, Stall: sendTimeout},
		passed); err != nil {
		return fmt.Errorf("--listen %w", err)
	}
	for _, l := range s.listeners {
		if u, ok := l.(*net.UnixListener); ok && s.plan.privilege.Chroot {
			u.SetUnlinkOnClose(false) // inside the chroot, its path differs
		}
	}
	return nil
}

// folders returns the folders that remain accessible: the served one, and those of the log and the
// keys.
func (s *fileServer) folders() privilege.Folders {
	f := privilege.Folders{Served: s.dir}
	if s.plan.privilege.Chroot && (s.plan.privilege.Sandbox == privilege.Off || privilege.LandlockVersion() == 0) {
		s.releaseAnchors() // an intruder could leave the chroot through them
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
