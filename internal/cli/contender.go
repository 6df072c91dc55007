//go:build linux

package cli

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	stdfcgi "net/http/fcgi"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/application"
)

// contenderCommand serves what contenders/nethttp and contenders/tare serve, with the same flags,
// on machines where these cannot be built.
func contenderCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "contender SERVER [flags]",
		Short:              "Serve an application of weigh with net/http or tare",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: run(func(_ context.Context, args []string) error {
			if len(args) == 0 || args[0] != "nethttp" && args[0] != "tare" {
				return usageError(fmt.Errorf("contender: want nethttp or tare and its flags, got %q", args))
			}
			site, err := application.FromFlags(flag.NewFlagSet(args[0], flag.ExitOnError), args[1:])
			if err != nil {
				return err
			}
			return serverOf(args[0], site)(site.Listener, site.Handler)
		}),
	}
}

// serverOf returns the function of a server that serves a site.
func serverOf(server string, site *application.Site) func(net.Listener, http.Handler) error {
	overHTTP, overFCGI, overTLS := http.Serve, stdfcgi.Serve, http.ServeTLS
	if server == "tare" {
		overHTTP, overFCGI, overTLS = tare.Serve, fcgi.Serve, tare.ServeTLS
	}
	switch {
	case site.FastCGI:
		return overFCGI
	case site.Cert != "":
		return func(l net.Listener, h http.Handler) error { return overTLS(l, h, site.Cert, site.Key) }
	}
	return overHTTP
}
