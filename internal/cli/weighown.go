//go:build linux

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

type ownFlags struct {
	env            []string
	path, host     string
	expect         int // status; 0 if it is not set
	fcgi           bool
	ready          time.Duration
	save           string
	buildA, buildB string
	failIf         string

	set *pflag.FlagSet
}

func (f *ownFlags) define(set *pflag.FlagSet) {
	f.set = set
	set.StringArrayVar(&f.env, "env", nil, "own application: set `NAME=value` in its environment, with the same placeholders; may be repeated")
	set.StringVar(&f.path, "path", "/", "own application: request this `PATH`, with an optional query")
	set.StringVar(&f.host, "host", "localhost", "own application: send this `HOST`")
	set.Var(parsed("status", &f.expect, parseStatus), "expect",
		"own application: require this `STATUS`, with any body (default its own response when alone, with a status below 400)")
	set.BoolVar(&f.fcgi, "fcgi", false, "own application: use FastCGI instead of HTTP")
	set.DurationVar(&f.ready, "ready", 10*time.Second, "own application: wait for its first response for `TIME`")
	set.StringVar(&f.save, "save", "", "own application: only write the experiment to `FILE`, for tare weigh FILE")
	set.StringVar(&f.buildA, "a", "", "run this `COMMAND` as build A, in quotes")
	set.StringVar(&f.buildB, "b", "", "compare it with this `COMMAND` as build B")
	set.StringVar(&f.failIf, "fail-if", "", "with --a and --b, exit with 0 if B is shown to hold these `BOUNDS` of cpu, rps, p50, p99 or errors, with 1 if it\nviolates one, and with 3 if the run cannot tell: 'cpu>+3%,rps<-5%,errors>0'; p50 and p99 need --rate")
}

func (f *ownFlags) builds() bool { return f.set.Changed("a") || f.set.Changed("b") }

// rejectFor returns an error if a flag for the user's own application is set.
func (f *ownFlags) rejectFor(what string) error {
	for _, name := range []string{"a", "b"} {
		if f.set.Changed(name) {
			return fmt.Errorf("%s and an application of your own (--%s) are mutually exclusive", what, name)
		}
	}
	for _, name := range []string{"env", "path", "host", "expect", "fcgi", "ready", "save"} {
		if f.set.Changed(name) {
			return fmt.Errorf("--%s requires an application of your own (after --, or with --a and --b); %s defines its own", name, what)
		}
	}
	return nil
}

func (f *ownFlags) experiment(env Env, command []string) (s *lab.Experiment, err error) {
	request := lab.OwnRequest{Path: f.path, Host: f.host}
	if f.expect != 0 {
		request.Expect = lab.Expectation{Status: f.expect, By: lab.ByStatus}
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	if !f.builds() {
		own, err := f.application(env, command)
		if err != nil {
			return nil, err
		}
		return lab.Own(own, request)
	}
	if len(command) > 0 {
		return nil, fmt.Errorf("--a and --b, and a command after --, are mutually exclusive: %q", command)
	}
	var sides [2]contender.Spec
	for i, side := range []struct{ name, line string }{{"a", f.buildA}, {"b", f.buildB}} {
		words, err := splitWords(side.line)
		if err == nil && len(words) == 0 {
			err = errors.New("want the command of a build, in quotes")
		}
		if err == nil {
			sides[i], err = f.application(env, words)
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", side.name, err)
		}
	}
	return lab.Builds(sides[0], sides[1], request)
}

func (f *ownFlags) check() error {
	if f.path == "" || f.path[0] != '/' || strings.ContainsAny(f.path, " \t\r\n") {
		return fmt.Errorf("--path %q: want a path that begins with / and has no spaces", f.path)
	}
	if f.host == "" || strings.ContainsAny(f.host, " \t\r\n/") {
		return fmt.Errorf("--host %q: want a host name", f.host)
	}
	if f.ready <= 0 {
		return fmt.Errorf("--ready %v: want a duration such as 30s", f.ready)
	}
	for _, variable := range f.env {
		if name, _, ok := strings.Cut(variable, "="); !ok || !isVariable(name) {
			return fmt.Errorf("--env %q: want NAME=value", variable)
		}
	}
	return nil
}

// application returns the application started by a command, which variables may precede.
func (f *ownFlags) application(env Env, words []string) (s contender.Spec, err error) {
	variables, command := variables(words)
	if len(command) == 0 {
		return s, fmt.Errorf("missing command in %q", strings.Join(words, " "))
	}
	s = contender.Spec{Command: command, Env: slices.Concat(f.env, variables), Folder: env.Dir}
	if f.fcgi {
		s.Protocol = contender.FastCGI
	}
	s.Ready.Within = yamlfile.Duration(f.ready)
	return s, nil
}

func parseStatus(text string) (int, error) {
	status, err := strconv.Atoi(text)
	if err != nil || status < 200 || status > 599 {
		return 0, errors.New("want a status from 200 to 599")
	}
	return status, nil
}

// commandLine returns the flags for the report to repeat.
func (f *ownFlags) commandLine() []string {
	return wordsOf(f.set, f.set.Changed, "env", "path", "host", "expect", "ready", "a", "b", "fail-if", "fcgi")
}

func saveOwn(env Env, s *lab.Experiment, name string) error {
	file := env.path(name)
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return usageError(fmt.Errorf("--save: %q already exists: choose another file, or remove it", name))
	}
	if err != nil {
		return err
	}
	err = s.Write(out, filepath.Dir(file), "tare weigh "+name)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	fmt.Fprintf(env.Stdout, "Wrote %s; run it with \"tare weigh %s\".\n", name, name)
	return nil
}
