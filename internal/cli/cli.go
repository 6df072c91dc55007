// Package cli is the command line: one file for each subcommand.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes.
const (
	exitOK    = 0
	exitFail  = 1   // something did not work; what did is kept
	exitUsage = 2   // the command line, or a file it names, is wrong
	exitStop  = 130 // interrupted
)

// Env is the world a command runs in.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Dir    string // relative paths on the command line start here; absolute
}

// Main carries out this process's own command line and returns the exit code.
func Main() int {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	env := Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	dir, err := os.Getwd()
	if err != nil {
		return exitCode(env, &exit{exitFail, err})
	}
	env.Dir = dir
	return Run(ctx, env, os.Args[1:])
}

// Run carries out a command line, without the program's name, and returns the exit
// code. When ctx ends the command stops what it started and reports what it has.
func Run(ctx context.Context, env Env, args []string) int {
	root := &cobra.Command{
		Use:   "tare",
		Short: "Weigh the ways of serving an HTTP application",
		Long: `tare weighs what each way of serving an HTTP application costs, and generates load.

  tare weigh                 weigh the ways of serving a Go handler, on this machine
  tare weigh -- COMMAND      weigh your own application, alone and behind nginx
  tare load URL -c 64        load a server, and see what comes back
  tare wrk -c 64 URL         the same, with wrk's flags and its report
  tare serve DIR             serve the files of a folder`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	root.RunE = run(func(context.Context, []string) error { return root.Help() })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(serveCommand(env), loadCommand(env), weighCommand(env), reportCommand(env), versionCommand(env), guardCommand(env))
	root.AddCommand(dialectCommands(env)...)
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	return exitCode(env, root.ExecuteContext(ctx))
}

// exit is an error that knows its exit code. One without an error was reported
// already.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usage(err error) error { return &exit{exitUsage, err} }

// run wraps a command's body, so that errors without an exit code are failures.
// Those that cobra makes of a wrong command line never pass here.
func run(body func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		err := body(c.Context(), args)
		if _, ok := errors.AsType[*exit](err); ok || err == nil {
			return err
		}
		return &exit{exitFail, err}
	}
}

func exitCode(env Env, err error) int {
	if err == nil {
		return exitOK
	}
	e, ok := errors.AsType[*exit](err)
	if !ok {
		e = &exit{exitUsage, err}
	}
	if e.err == nil {
		return e.code
	}
	fmt.Fprintf(env.Stderr, "tare: %v\n", e.err)
	if e.code == exitUsage {
		fmt.Fprintln(env.Stderr, `"tare help" says how to use it`)
	}
	return e.code
}

// canRedraw reports whether w is a terminal on which lines can be drawn anew.
func canRedraw(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}
