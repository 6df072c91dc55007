package cli

import "github.com/spf13/cobra"

// The root command's help.
const (
	rootShort = "Measure, load and serve HTTP applications"
	rootLong  = `Measure what each way of serving an HTTP application costs, generate load, and serve files or what
an nginx.conf configures.

  tare weigh                 compare the ways of serving a Go handler on this machine
  tare weigh -- COMMAND      compare your own application alone and behind nginx
  tare load URL -c 64        load a server and report rate, latency and errors
  tare wrk -c 64 URL         load it with wrk's flags and print wrk's report
  tare serve DIR             serve the files of a folder
  tare serve -c nginx.conf   serve what an nginx.conf configures`
)

// systemCommands returns the commands that other systems do not have: they use epoll and /proc.
func systemCommands(env Env) []*cobra.Command {
	return append([]*cobra.Command{loadCommand(env), agentCommand(env), weighCommand(env), reportCommand(env),
		guardCommand(env), contenderCommand()}, dialectCommands(env)...)
}
