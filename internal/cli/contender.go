//go:build linux

package cli

import (
	"context"
	"flag"
	"fmt"
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
			if args[0] == "tare" {
				return site.Serve(tare.Serve, fcgi.Serve, tare.ServeTLS)
			}
			return site.Serve(http.Serve, stdfcgi.Serve, http.ServeTLS)
		}),
	}
}
