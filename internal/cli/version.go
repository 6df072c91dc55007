package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: run(func(context.Context, []string) error {
			fmt.Fprintln(env.Stdout, versionLine())
			return nil
		}),
	}
}

// version is this program's.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "(unknown)"
}

// versionLine is what is said of it.
func versionLine() string {
	return fmt.Sprintf("tare %s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
