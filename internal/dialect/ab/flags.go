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

func (c *Command) flags() []getopt.Flag {
	takes := func(letter byte, set func(value string) error) getopt.Flag { return getopt.Value(letter, "", set) }
	text := func(letter byte, to *string) getopt.Flag { return getopt.Text(letter, "", to) }
	on := func(letter byte, to *bool) getopt.Flag { return getopt.Switch(letter, "", to, true) }
	table := func(letter byte, to *string) getopt.Flag {
		return takes(letter, func(value string) error { *to, c.html = value, true; return nil })
	}
	return []getopt.Flag{
		takes('n', setNumber(maxRequests, func(n int) { c.requests = n })),
		takes('c', setNumber(maxConcurrency, func(n int) { c.concurrency = n })),
		takes('t', setNumber(maxSeconds, func(n int) {
			c.limit, c.requests = time.Duration(n)*time.Second, timedRequests
		})),
		takes('s', setNumber(maxSeconds, func(n int) { c.timeout = time.Duration(n) * time.Second })),
		takes('b', nil),
		takes('B', c.setSource),
		takes('p', func(file string) error { return c.setBody("POST", file) }),
		takes('u', func(file string) error { return c.setBody("PUT", file) }),
		text('T', &c.contentType),
		takes('v', setVerbosity),
		on('w', &c.html),
		{Short: 'i', Set: func(string) error { return c.setMethod("HEAD") }},
		table('x', &c.tableAttributes),
		table('y', &c.rowAttributes),
		table('z', &c.cells),
		text('C', &c.cookie),
		takes('H', func(line string) error { c.header = append(c.header, line); return nil }),
		takes('A', func(who string) error { c.addCredentials("Authorization", who); return nil }),
		takes('P', func(who string) error { c.addCredentials("Proxy-Authorization", who); return nil }),
		takes('X', nil),
		{Short: 'V', Set: dialect.Print(versionText, 0)},
		on('k', &c.keepAlive),
		on('d', &c.noPercentiles),
		on('S', &c.noDeviation),
		on('q', &c.quiet),
		on('l', &c.anyLength),
		text('g', &c.plotFile),
		text('e', &c.csvFile),
		on('r', &c.continueOnError),
		text('m', &c.method),
		{Short: 'h', Long: "help", Set: dialect.Print(usageText, ExitUsage)},
		{Short: 'I'},
		takes('Z', nil),
		takes('f', c.setProtocol),
		takes('E', c.setCertificate),
	}
}

func setNumber(most int, do func(n int)) func(value string) error {
	return func(value string) error {
		n, err := dialect.Number(value, 1, most)
		if err == nil {
			do(n)
		}
		return err
	}
}

// setVerbosity accepts levels that print nothing. From level 2 on, ab prints requests and
// responses.
func setVerbosity(value string) error {
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
