package siege

import (
	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/getopt"
)

const versionText = "siege as tare has it: the command lines of siege 4, the report of 4.0.7\n"

const usageText = `Usage: tare siege [flags] URL
       tare siege [flags] -f FILE

The command lines of siege, and its report, by the generator of tare.

  -c, --concurrent N       how many users (default 25, at most 255 unless -R says otherwise)
  -r, --reps N             how many requests of each; or "once" for each URL
  -t, --time N[SMH]        for how long, in minutes if no unit is given
  -d, --delay SECONDS      users pause after each response, at random up to that (default 0)
  -b, --benchmark          users do not pause
  -i, --internet           take URLs at random
  -f, --file FILE          a URL in each line, "URL POST data" or "URL POST <file"
  -R, --rc FILE            a configuration file of siege's; no other is read
  -H, --header LINE        a header line; may be repeated
  -A, --user-agent TEXT
  -T, --content-type TYPE  of what is sent
  -v, --verbose            print each transaction, after the run
  -q, --quiet              print nothing
  -j, --json-output        print JSON instead of the summary
  -l, --log[=FILE]         add a line to the log (default /var/log/siege.log)
  -m, --mark TEXT          and that text before it
      --no-parser, --no-follow  what siege would request by itself is not noted
  -V, --version            print the version
      --no-footnotes       say nothing of where siege's figures mislead

siege's -C, -D, -g and -p are not supported.
`

// asked ends the command with a text.
func printText(text string) func(*Command, string) error {
	return func(*Command, string) error { return &dialect.UsageError{Tool: "siege", Text: text} }
}

// flags are siege's, in the order of its help.
func flags() []dialect.Flag[Command] {
	flag := func(letter byte, name string, takes getopt.Arity, set func(c *Command, value string) error) dialect.Flag[Command] {
		return dialect.Flag[Command]{Flag: getopt.Flag{Short: letter, Long: name, Arity: takes}, Set: set}
	}
	on := func(letter byte, name string, do func(c *Command)) dialect.Flag[Command] {
		return flag(letter, name, getopt.None, func(c *Command, _ string) error { do(c); return nil })
	}
	text := func(letter byte, name string, field func(c *Command) *string) dialect.Flag[Command] {
		return flag(letter, name, getopt.Required, func(c *Command, value string) error { *field(c) = value; return nil })
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
		flag('m', "mark", getopt.Required, func(c *Command, value string) error { c.mark, c.logging = value, true; return nil }),
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

// rcFile is the file of -R. Flags overrule it wherever it is among them, so it is looked for
// first.
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
