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

const versionText = "tare's emulation of ab: command lines of ApacheBench 2.3, of Apache 2.4\n"

const usageText = `Usage: tare ab [flags] [http[s]://]host[:port]/path

Run tare's load generator with ab's flags and print ab's report.

  -n N          send N requests (default 1)
  -c N          send N requests at a time (default 1)
  -t SECONDS    stop after SECONDS, or after 50000 requests unless -n follows
  -s SECONDS    wait for a response for SECONDS (default 30)
  -k            keep connections alive
  -l            accept bodies of any length
  -r            continue after socket errors
  -i            send HEAD instead of GET
  -m METHOD     send METHOD instead of GET
  -p, -u FILE   send FILE with POST, or with PUT
  -T TYPE       send the Content-type TYPE with it (default text/plain)
  -H LINE       send a header field "Name: value"; may be repeated
  -C COOKIE     send a cookie "NAME=VALUE"
  -A, -P U:P    send user U and password P to the server, or to a proxy
  -B ADDRESS    connect from ADDRESS
  -f VERSION    require TLS1, TLS1.1, TLS1.2, TLS1.3 or ALL (default ALL)
  -E FILE       read the client's certificates and key from FILE
  -d            omit percentages
  -S            omit deviations and warnings
  -q            omit progress
  -w            print HTML, with attributes -x for the table, -y for rows, -z for cells
  -e, -g FILE   write percentages as CSV, or all times for gnuplot
  -V            print the version
  --no-footnotes  do not explain misleading figures of ab

Unsupported: -v above 1, -b, -X, -I and -Z.
`

// flags returns ab's flags, in the order of its help.
func flags() []dialect.Flag[Command] {
	type set = func(c *Command, value string) error
	takes := func(letter byte, do set) dialect.Flag[Command] {
		return dialect.Flag[Command]{Flag: getopt.Flag{Short: letter, Arity: getopt.Required}, Set: do}
	}
	on := func(letter byte, do func(c *Command)) dialect.Flag[Command] {
		return dialect.Flag[Command]{Flag: getopt.Flag{Short: letter},
			Set: func(c *Command, _ string) error { do(c); return nil }}
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
		takes('t', setNumber(maxSeconds, func(c *Command, n int) {
			c.limit, c.requests = time.Duration(n)*time.Second, timedRequests
		})),
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
		{Flag: getopt.Flag{Short: 'h', Long: "help"},
			Set: func(*Command, string) error { return printText(usageText, exitUsage) }},
		not('I', getopt.None),
		not('Z', getopt.Required),
		takes('f', (*Command).setProtocol),
		takes('E', (*Command).setCertificate),
	}
}

// printText ends the command with a text and ab's exit code.
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

// setVerbosity accepts levels that print nothing. From level 2 on, ab prints requests and
// responses.
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
