package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
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
relative paths start from. Other flags except --user, --group and --grace are rejected.

If started as root, tare opens its ports, logs and keys and then becomes --user for good. With
--chroot it can access only DIR. On standard error it prints what it serves, where and as which user.

--listen accepts these addresses and may be repeated:

  HOST:PORT, [IPV6]:PORT  one address
  :PORT                   all addresses, like --port PORT
  unix:PATH               a unix socket
  systemd, systemd:NAME   the sockets passed by the service manager, or those with a name; the
                          default if there are any and neither --listen nor --port is set

Signals:

  SIGTERM, SIGINT  finish active requests within --grace, and exit; a second one aborts them
  SIGQUIT          finish active requests without limit, and exit
  SIGHUP           reload the certificate (which also happens when it changes); without one, like
                   SIGTERM, or ignored under nohup.
                   With -c FILE, reload it and reopen the logs; an invalid one changes nothing
  SIGUSR1          reopen the logs, after they were renamed
  SIGUSR2          with -c FILE, start the program again and let the new process take over

The exit code is 0 after a signal, 1 if something failed or requests were aborted, and 2 if the
command line or FILE is invalid.`,
		Example: `  tare serve                                          # the current folder, on port 8080
  tare serve public -p 80 -u www-data -r              # as www-data, with access to public only
  tare serve public -p 443 --cert cert.pem -k key.pem -u www-data --access-log /var/log/tare.log
  tare serve public --listen 127.0.0.1:8080 --listen '[::1]:8080' --listen unix:/run/tare.sock
  tare serve -c /etc/nginx/nginx.conf -t && tare serve -c /etc/nginx/nginx.conf`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("serve: want one folder, got %d", len(args))
			}
			return nil
		},
		RunE: run(func(ctx context.Context, args []string) error {
			if flags.version {
				_, err := fmt.Fprintln(env.Stdout, versionLine())
				return err
			}
			return withCommand("serve", flags.serve(ctx, env, args))
		}),
	}
	c.Flags().SortFlags = false
	flags.define(c)
	return c
}
