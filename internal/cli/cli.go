// Package cli is the command line of tare: one file or group of files for each subcommand.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tarehq/tare/internal/interrupt"
)

// Exit codes.
const (
	exitOK    = 0
	exitFail  = 1   // something failed; partial results are kept
	exitUsage = 2   // the command line, or a file that it names, is invalid
	exitStop  = 130 // interrupted

	exitUndecided = 3 // --fail-if: the run shows neither that the bounds hold nor that one is violated
)

// Env is the environment of a command.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Dir    string // absolute; relative paths on the command line start here
}

const stdio = "-" // file name that means standard input or output

// path returns the path of a file named on the command line.
func (e Env) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.Dir, name)
}

// Main runs this process's command line and returns the exit code.
func Main() int {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, _ := interrupt.Context(context.Background(), signals...)
	env := Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	dir, err := os.Getwd()
	if err != nil {
		return exitCode(env, &exitError{exitFail, err})
	}
	env.Dir = dir
	return Run(ctx, env, os.Args[1:])
}

// Run runs a command line, without the program's name, and returns the exit code. If ctx ends, the
// command stops the programs that it started and reports what it has.
func Run(ctx context.Context, env Env, args []string) int {
	root := &cobra.Command{
		Use:           "tare",
		Short:         rootShort,
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.RunE = run(func(context.Context, []string) error { return root.Help() })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(serveCommand(env)) // a server goes on if a line of its log is lost
	stdout := &checkedWriter{out: env.Stdout}
	env.Stdout = stdout
	root.AddCommand(versionCommand(env))
	root.AddCommand(systemCommands(env)...)
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil && stdout.err != nil {
		err = &exitError{exitFail, stdout.err}
	}
	return exitCode(env, err)
}

// checkedWriter keeps the first error of writing. Commands need not check what they print.
type checkedWriter struct {
	out io.Writer
	err error
}

// Write implements io.Writer.
func (w *checkedWriter) Write(b []byte) (int, error) {
	n, err := w.out.Write(b)
	w.err = cmp.Or(w.err, err)
	return n, err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // goals contain <
	return e.Encode(v)
}

// exitError is an error with an exit code. Without an err, the message has been printed already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError gives an error the exit code of usage errors, unless it has a code.
func usageError(err error) error {
	if _, ok := errors.AsType[*exitError](err); ok {
		return err
	}
	return &exitError{exitUsage, err}
}

// withCommand adds the command's name to an error that is not printed yet, and keeps its exit code.
func withCommand(command string, err error) error {
	e, ok := errors.AsType[*exitError](err)
	switch {
	case err == nil, ok && e.err == nil:
		return err
	case ok:
		return &exitError{e.code, fmt.Errorf("%s: %w", command, e.err)}
	}
	return fmt.Errorf("%s: %w", command, err)
}

// run wraps a command's body. Errors without an exit code get the code of a failure. cobra's own
// errors about the command line do not pass through here.
func run(body func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		err := body(c.Context(), args)
		if _, ok := errors.AsType[*exitError](err); ok || err == nil {
			return err
		}
		return &exitError{exitFail, err}
	}
}

func exitCode(env Env, err error) int {
	if err == nil {
		return exitOK
	}
	e, ok := errors.AsType[*exitError](err)
	if !ok {
		e = &exitError{exitUsage, err}
	}
	if e.err == nil {
		return e.code
	}
	fmt.Fprintf(env.Stderr, "tare: %v\n", e.err)
	if e.code == exitUsage {
		fmt.Fprintln(env.Stderr, `see "tare help"`)
	}
	return e.code
}

// canRedraw reports whether w is a terminal on which lines can be redrawn.
func canRedraw(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}
