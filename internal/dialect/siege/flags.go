package siege

import (
	"cmp"

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

func (c *Command) flags() []getopt.Flag {
	return []getopt.Flag{
		{Short: 'V', Long: "version", Set: dialect.Print(versionText, 0)},
		{Short: 'h', Long: "help", Set: dialect.Print(usageText, 0)},
		{Short: 'C', Long: "config"},
		{Short: 'D', Long: "debug"},
		getopt.Switch('v', "verbose", &c.verbose, true),
		getopt.Switch('q', "quiet", &c.quiet, true),
		{Short: 'g', Long: "get"},
		{Short: 'p', Long: "print"},
		getopt.Value('c', "concurrent", c.setUsers),
		getopt.Value('r', "reps", c.setReps),
		getopt.Value('t', "time", c.setTime),
		getopt.Value('d', "delay", c.setDelay),
		getopt.Switch('b', "benchmark", &c.benchmark, true),
		getopt.Switch('i', "internet", &c.random, true),
		getopt.Text('f', "file", &c.file),
		getopt.Text('R', "rc", &c.rcFile),
		{Short: 'l', Long: "log", Arity: getopt.Optional, Set: func(file string) error {
			c.logging, c.logFile = true, cmp.Or(file, c.logFile)
			return nil
		}},
		getopt.Value('m', "mark", func(text string) error { c.mark, c.logging = text, true; return nil }),
		getopt.Value('H', "header", c.addHeader),
		getopt.Text('A', "user-agent", &c.agent),
		getopt.Text('T', "content-type", &c.contentType),
		getopt.Switch('j', "json-output", &c.json, true),
		getopt.Switch('N', "no-parser", &c.parser, false),
		getopt.Switch('F', "no-follow", &c.follow, false),
	}
}
