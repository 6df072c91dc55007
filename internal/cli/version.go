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

// release is the version of a program that "make dist" built, set by the linker. Other programs
// have the version that Go derives from the module or the checkout.
var release string

func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "(unknown)"
}

// toolVersion returns the versions of this program and of the Go that built it, for reports.
func toolVersion() string { return version() + " " + runtime.Version() }

func versionLine() string {
	return fmt.Sprintf("tare %s %s/%s", toolVersion(), runtime.GOOS, runtime.GOARCH)
}
