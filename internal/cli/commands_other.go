//go:build !linux

package cli

import "github.com/spf13/cobra"

// The root command's help.
const (
	rootShort = "Serve HTTP applications"
	rootLong  = `Serve files or what an nginx.conf configures. The commands that measure and load servers need Linux.

  tare serve DIR             serve the files of a folder
  tare serve -c nginx.conf   serve what an nginx.conf configures`
)

// systemCommands returns no commands: those that measure and load servers use epoll and /proc.
func systemCommands(Env) []*cobra.Command { return nil }
