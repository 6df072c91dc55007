package siege

import (
	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/getopt"
)

const versionText = "tare's emulation of siege: command lines of siege 4, report of 4.0.7\n"

const usageText = `Usage: tare siege [flags] URL
       tare siege [flags] -f FILE

Run tare's load generator with siege's flags and print siege's report.

  -c, --concurrent N       simulate N users (default 25, at most 255 unless -R raises the limit)
  -r, --reps N             send N requests per user, or each URL once with "once"
  -t, --time N[SMH]        run for N seconds, minutes or hours (default unit: minutes)
  -d, --delay SECONDS      pause users after each response, at random up to SECONDS (default 0)
  -b, --benchmark          run without pauses
  -i, --internet           pick URLs at random
  -f, --file FILE          read one URL per line: "URL", "URL POST data" or "URL POST <file"
  -R, --rc FILE            read a configuration file of siege (default none)
  -H, --header LINE        send a header field "Name: value"; may be repeated
  -A, --user-agent TEXT    send TEXT as User-Agent
  -T, --content-type TYPE  send bodies with this Content-Type
  -v, --verbose            print each transaction after the run
  -q, --quiet              print nothing
  -j, --json-output        print JSON instead of the summary
  -l, --log[=FILE]         append a line to the log (default /var/log/siege.log)
  -m, --mark TEXT          append TEXT to the log before that line
      --no-parser, --no-follow  do not mention pages' resources, or redirections
  -V, --version            print the version
      --no-footnotes       do not explain misleading figures of siege

Unsupported: -C, -D, -g and -p.
`

// printText ends the command with a text.
func printText(text string) func(*Command, string) error {
	return func(*Command, string) error { return &dialect.UsageError{Tool: "siege", Text: text} }
}

// flags returns siege's flags, in the order of its help.
func flags() []dialect.Flag[Command] {
	flag := func(letter byte, name string, takes getopt.Arity,
		set func(c *Command, value string) error) dialect.Flag[Command] {
		return dialect.Flag[Command]{Flag: getopt.Flag{Short: letter, Long: name, Arity: takes}, Set: set}
	}
	on := func(letter byte, name string, do func(c *Command)) dialect.Flag[Command] {
		return flag(letter, name, getopt.None, func(c *Command, _ string) error { do(c); return nil })
	}
	text := func(letter byte, name string, field func(c *Command) *string) dialect.Flag[Command] {
		return flag(letter, name, getopt.Required,
			func(c *Command, value string) error { *field(c) = value; return nil })
	}
	return []dialect.Flag[Command]{
		flag('V', "version", getopt.None, printText(versionText)),
		flag('h', "help", getopt.None, printText(usageText)),
		flag('C', "config", getopt.None, nil),
		flag('D', "debug", getopt.None, nil),
		on('v', "verbose", func(c *Command) { c.verbose = true }),
		on('q', "quiet", func(c *Command) { c.quiet = true }),
		flag('g', "get", getopt.None, nil),
		flag('p', "print", getopt.None, nil),
		flag('c', "concurrent", getopt.Required, func(c *Command, value string) error { return c.setUsers(value) }),
		flag('r', "reps", getopt.Required, func(c *Command, value string) error { return c.setReps(value) }),
		flag('t', "time", getopt.Required, func(c *Command, value string) error { return c.setTime(value) }),
		flag('d', "delay", getopt.Required, func(c *Command, value string) error { return c.setDelay(value) }),
		on('b', "benchmark", func(c *Command) { c.benchmark = true }),
		on('i', "internet", func(c *Command) { c.random = true }),
		text('f', "file", func(c *Command) *string { return &c.file }),
		flag('R', "rc", getopt.Required, func(*Command, string) error { return nil }), // read before the others
		flag('l', "log", getopt.Optional, func(c *Command, value string) error { c.log(value); return nil }),
		flag('m', "mark", getopt.Required,
			func(c *Command, value string) error { c.mark, c.logging = value, true; return nil }),
		flag('H', "header", getopt.Required, func(c *Command, value string) error { return c.addHeader(value) }),
		text('A', "user-agent", func(c *Command) *string { return &c.agent }),
		text('T', "content-type", func(c *Command) *string { return &c.contentType }),
		on('j', "json-output", func(c *Command) { c.json = true }),
		on('N', "no-parser", func(c *Command) { c.parser = false }),
		on('F', "no-follow", func(c *Command) { c.follow = false }),
	}
}

func (c *Command) log(file string) {
	c.logging = true
	if file != "" {
		c.logFile = file
	}
}

// rcFile is the file of -R. Flags override it wherever it stands among them, so it is parsed first.
type rcFile struct{ name string }

func rcOnly() (only []dialect.Flag[rcFile]) {
	for _, f := range flags() {
		own := dialect.Flag[rcFile]{Flag: f.Flag}
		if f.Set != nil {
			own.Set = func(*rcFile, string) error { return nil }
		}
		if f.Short == 'R' {
			own.Set = func(rc *rcFile, value string) error { rc.name = value; return nil }
		}
		only = append(only, own)
	}
	return only
}
