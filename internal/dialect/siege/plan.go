package siege

import (
	"crypto/tls"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/load"
)

// maxSamples limits the memory for the times of requests. Requests beyond it are only counted.
const maxSamples = 2_000_000

// Plan returns the plan of the run. siege exits after maxFailures, of which only those without a
// response are known during the run.
func (c *Command) Plan(giveUp func()) load.Plan {
	first := &c.urls[0]
	p := load.Plan{
		URL:         first.server.Scheme + "://" + first.server.Authority() + first.path,
		Header:      c.headerLines(),
		Connections: c.users,
		Duration:    c.time,
		Timeout:     c.timeout,
		Think:       c.delay,
		Shuffle:     c.random,
		// Any number of requests, even an unreachable one, includes connecting in the measured
		// time, as siege does.
		Requests: c.requests(),
		Samples:  int(min(c.requests(), maxSamples)),
		Trace: &load.Trace{Progress: func(g load.Progress) {
			if g.Errors.WithoutResponse() >= maxFailures {
				giveUp()
			}
		}},
	}
	if c.http10 {
		p.Version = load.HTTP10
	}
	if !c.keepAlive {
		p.PerConnection = 1
	}
	if first.server.Scheme == "https" {
		p.TLS = &tls.Config{InsecureSkipVerify: true} // siege verifies no certificate
	}
	if len(c.urls) == 1 {
		only := c.request(first)
		p.Method, p.Body = only.Method, only.Body
		p.Header = append(p.Header, only.Header...)
		return p
	}
	for i := range c.urls {
		p.List = append(p.List, c.request(&c.urls[i]))
	}
	return p
}

func (c *Command) request(t *target) load.Request {
	r := load.Request{URL: t.path, Method: t.method, Body: t.body}
	if t.hasBody {
		r.Header = []string{"Content-Type: " + c.contentType, "Content-Length: " + strconv.Itoa(len(t.body))}
	}
	return r
}

// headerLines returns the header fields in siege's order: those of -H precede Connection.
func (c *Command) headerLines() (lines []string) {
	given := func(name string) func(line string) bool {
		return func(line string) bool {
			return len(line) > len(name) && strings.EqualFold(line[:len(name)+1], name+":")
		}
	}
	if !slices.ContainsFunc(c.header, given("Host")) {
		lines = append(lines, c.urls[0].server.HostLine())
	}
	// siege checks only the first field of -H.
	if len(c.header) == 0 || !given("Accept")(c.header[0]) {
		lines = append(lines, "Accept: */*")
	}
	lines = append(lines, "Accept-Encoding: "+c.encoding, "User-Agent: "+c.agent)
	lines = append(lines, c.header...)
	if c.keepAlive {
		return append(lines, "Connection: keep-alive")
	}
	return append(lines, "Connection: close")
}

// Begin prints siege's output before a run.
func (c *Command) Begin(stdout, stderr io.Writer) {
	if c.requestedUsers > 0 {
		pad := "  "
		if c.limit > 999 {
			pad = " "
		}
		const rule = "================================================================\n"
		fmt.Fprintf(stdout, "\n%sWARNING: The number of users is capped at %d.%sTo increase this\n"+
			"         limit, search your .siegerc file for 'limit' and change\n"+
			"         its value. Make sure you read the instructions there...\n%s", rule, c.limit, pad, rule)
	}
	fmt.Fprint(stderr, c.notice)
	if c.quiet {
		return
	}
	fmt.Fprintf(stderr, "** SIEGE 4.0.7\n** Preparing %d concurrent users for battle.\nThe server is now under siege...", c.users)
	if c.verbose {
		fmt.Fprintln(stderr)
	}
}
