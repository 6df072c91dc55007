package ab

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/load"
)

// Plan returns the plan of the run. Its Trace writes progress to the stderr of Begin.
func (c *Command) Plan(giveUp func()) load.Plan {
	p := load.Plan{
		URL:         c.server.Scheme + "://" + c.server.Authority() + c.path,
		Method:      c.method,
		Header:      c.headerLines(),
		Body:        c.body,
		Version:     load.HTTP10,
		Connections: c.concurrency,
		Duration:    c.limit,
		Requests:    uint64(c.requests),
		Timeout:     c.timeout,
		Samples:     c.requests,
		Trace: &load.Trace{
			Started: func() { c.started = time.Now() },
			Progress: func(g load.Progress) {
				switch {
				case c.givesUp(&g.Errors):
					giveUp()
				case g.Measuring:
					c.printProgress(int(g.Requests))
				}
			},
		},
	}
	if c.source.IsValid() {
		p.Sources = []netip.Addr{c.source}
	}
	if c.server.Scheme == "https" {
		p.TLS = c.tlsConfig()
	}
	return p
}

// headerLines returns the header fields in ab's order: those of -H precede Host.
func (c *Command) headerLines() (lines []string) {
	if c.keepAlive {
		lines = append(lines, "Connection: Keep-Alive")
	}
	if c.cookie != "" {
		lines = append(lines, "Cookie: "+c.cookie)
	}
	lines = append(lines, c.credentials...)
	if c.sendsBody {
		lines = append(lines, "Content-length: "+strconv.Itoa(len(c.body)), "Content-type: "+c.contentType)
	}
	lines = append(lines, c.header...)
	for _, own := range []struct{ name, line string }{
		{"Host", c.server.HostLine()},
		{"User-Agent", "User-Agent: ApacheBench/2.3"},
		{"Accept", "Accept: */*"},
	} {
		if _, ok := c.headerValue(own.name); !ok {
			lines = append(lines, own.line)
		}
	}
	return lines
}

func (c *Command) headerValue(name string) (value string, ok bool) {
	i := slices.IndexFunc(c.header, func(line string) bool {
		n, _, _ := strings.Cut(line, ":")
		return strings.EqualFold(n, name)
	})
	if i < 0 {
		return "", false
	}
	_, value, _ = strings.Cut(c.header[i], ":")
	return strings.TrimSpace(value), true
}

// Begin prints ab's output before a run.
func (c *Command) Begin(stdout, stderr io.Writer) {
	c.stderr = stderr
	if c.html {
		fmt.Fprint(stdout, "<p>\n This is ApacheBench, Version 2.3 <i>&lt;$Revision$&gt;</i><br>\n"+
			" Copyright 1996 Adam Twiss, Zeus Technology Ltd, http://www.zeustech.net/<br>\n"+
			" Licensed to The Apache Software Foundation, http://www.apache.org/<br>\n</p>\n<p>\n")
		return
	}
	fmt.Fprint(stdout, "This is ApacheBench, Version 2.3 <$Revision$>\n"+
		"Copyright 1996 Adam Twiss, Zeus Technology Ltd, http://www.zeustech.net/\n"+
		"Licensed to The Apache Software Foundation, http://www.apache.org/\n\n")
	fmt.Fprintf(stdout, "Benchmarking %s (be patient)", c.server.Hostname())
	if c.progressStep > 0 {
		fmt.Fprintln(stdout)
	} else {
		fmt.Fprint(stdout, "...")
	}
}

// printProgress writes the lines of progress due after a number of requests.
func (c *Command) printProgress(done int) {
	for c.progressStep > 0 && c.stderr != nil && (c.progressLines+1)*c.progressStep <= min(done, c.requests) {
		c.progressLines++
		fmt.Fprintf(c.stderr, "Completed %d requests\n", c.progressLines*c.progressStep)
	}
}
