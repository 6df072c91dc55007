package ab

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/getopt"
)

const versionText = "ab as tare has it: the command lines of ApacheBench 2.3, of Apache 2.4\n"

const usageText = `Usage: tare ab [flags] [http[s]://]host[:port]/path

The command lines of ab, and its report, by the generator of tare.

  -n N          how many requests (default 1)
  -c N          how many at a time (default 1)
  -t SECONDS    for how long at most; with at most 50000 requests, unless -n follows
  -s SECONDS    how long to wait for a response (default 30)
  -k            keep connections
  -l            accept bodies of any length
  -r            go on after a socket failed
  -i            HEAD instead of GET
  -m METHOD     another method
  -p, -u FILE   POST, or PUT, what the file has
  -T TYPE       its Content-type (default text/plain)
  -H LINE       a header line; may be repeated
  -C COOKIE     a cookie
  -A, -P U:P    a user and password, for the server or a proxy
  -B ADDRESS    where to connect from
  -f VERSION    TLS1, TLS1.1, TLS1.2, TLS1.3 or ALL
  -E FILE       certificates and key of the client
  -d            print no percentages
  -S            print no deviations and no warnings
  -q            print no progress
  -w            print HTML, with the attributes -x of the table, -y of rows, -z of cells
  -e, -g FILE   write percentages as CSV, or all times for gnuplot
  -V            print the version
  --no-footnotes  say nothing of where ab's figures mislead

ab's -v above 1, -b, -X, -I and -Z are not supported.
`

// flags are ab's, in the order of its help.
func flags() []dialect.Flag[Command] {
	type set = func(c *Command, value string) error
	takes := func(letter byte, do set) dialect.Flag[Command] {
		return dialect.Flag[Command]{Flag: getopt.Flag{Short: letter, Arity: getopt.Required}, Set: do}
	}
	on := func(letter byte, do func(c *Command)) dialect.Flag[Command] {
		return dialect.Flag[Command]{Flag: getopt.Flag{Short: letter}, Set: func(c *Command, _ string) error { do(c); return nil }}
	}
	not := func(letter byte, arity getopt.Arity) dialect.Flag[Command] {
		return dialect.Flag[Command]{Flag: getopt.Flag{Short: letter, Arity: arity}}
	}
	text := func(letter byte, field func(c *Command) *string) dialect.Flag[Command] {
		return takes(letter, func(c *Command, value string) error { *field(c) = value; return nil })
	}
	table := func(letter byte, field func(c *Command) *string) dialect.Flag[Command] {
		return takes(letter, func(c *Command, value string) error { *field(c), c.html = value, true; return nil })
	}
	return []dialect.Flag[Command]{
		takes('n', setNumber(maxRequests, func(c *Command, n int) { c.requests = n })),
		takes('c', setNumber(maxConcurrency, func(c *Command, n int) { c.concurrency = n })),
		takes('t', setNumber(maxSeconds, func(c *Command, n int) { c.limit, c.requests = time.Duration(n)*time.Second, timedRequests })),
		takes('s', setNumber(maxSeconds, func(c *Command, n int) { c.timeout = time.Duration(n) * time.Second })),
		not('b', getopt.Required),
		takes('B', (*Command).setSource),
		takes('p', func(c *Command, file string) error { return c.setBody("POST", file) }),
		takes('u', func(c *Command, file string) error { return c.setBody("PUT", file) }),
		text('T', func(c *Command) *string { return &c.contentType }),
		takes('v', setVerbosity),
		on('w', func(c *Command) { c.html = true }),
		{Flag: getopt.Flag{Short: 'i'}, Set: func(c *Command, _ string) error { return c.setMethod("HEAD") }},
		table('x', func(c *Command) *string { return &c.tableAttributes }),
		table('y', func(c *Command) *string { return &c.rowAttributes }),
		table('z', func(c *Command) *string { return &c.cells }),
		text('C', func(c *Command) *string { return &c.cookie }),
		takes('H', func(c *Command, line string) error { c.header = append(c.header, line); return nil }),
		takes('A', func(c *Command, who string) error { c.addCredentials("Authorization", who); return nil }),
		takes('P', func(c *Command, who string) error { c.addCredentials("Proxy-Authorization", who); return nil }),
		not('X', getopt.Required),
		{Flag: getopt.Flag{Short: 'V'}, Set: func(*Command, string) error { return printText(versionText, 0) }},
		on('k', func(c *Command) { c.keepAlive = true }),
		on('d', func(c *Command) { c.noPercentiles = true }),
		on('S', func(c *Command) { c.noDeviation = true }),
		on('q', func(c *Command) { c.quiet = true }),
		on('l', func(c *Command) { c.anyLength = true }),
		text('g', func(c *Command) *string { return &c.plotFile }),
		text('e', func(c *Command) *string { return &c.csvFile }),
		on('r', func(c *Command) { c.continueOnError = true }),
		text('m', func(c *Command) *string { return &c.method }),
		{Flag: getopt.Flag{Short: 'h', Long: "help"}, Set: func(*Command, string) error { return printText(usageText, exitUsage) }},
		not('I', getopt.None),
		not('Z', getopt.Required),
		takes('f', (*Command).setProtocol),
		takes('E', (*Command).setCertificate),
	}
}

// asked ends the command with a text, and ab's exit code.
func printText(text string, code int) error {
	return &dialect.UsageError{Tool: "ab", Text: text, Code: code}
}

func setNumber(most int, do func(c *Command, n int)) func(c *Command, value string) error {
	return func(c *Command, value string) error {
		n, err := dialect.Number(value, 1, most)
		if err == nil {
			do(c, n)
		}
		return err
	}
}

// setVerbosity accepts what prints nothing. From 2 on ab prints what it sends and gets.
func setVerbosity(_ *Command, value string) error {
	_, err := dialect.Number(value, 0, 1)
	return err
}

func (c *Command) setMethod(name string) error {
	if c.method != "" {
		return fmt.Errorf("cannot mix %s with other methods", name)
	}
	c.method = name
	return nil
}

func (c *Command) setBody(method, file string) error {
	if err := c.setMethod(method); err != nil {
		return err
	}
	body, err := os.ReadFile(file)
	c.body, c.sendsBody = string(body), true
	return err
}

func (c *Command) setSource(value string) (err error) {
	c.source, err = netip.ParseAddr(value)
	return err
}

func (c *Command) addCredentials(field, who string) {
	line := field + ": Basic " + base64.StdEncoding.EncodeToString([]byte(strings.TrimLeft(who, " \t")))
	c.credentials = append(c.credentials, line)
}
