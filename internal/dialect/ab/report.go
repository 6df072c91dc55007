package ab

import (
	"fmt"
	"io"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/load"
)

// Report prints ab's output after a run and writes the files of -e and -g. If ab would have exited
// early, Report prints ab's message and returns an Exit.
func (c *Command) Report(stdout, stderr io.Writer, r *load.Result) error {
	o := c.count(r)
	c.stderr = stderr
	c.printProgress(len(o.requests))
	if o.stop != nil {
		fmt.Fprint(stderr, o.stop.Stderr)
		if n := len(o.requests); n > 0 {
			fmt.Fprintf(stdout, "Total of %d requests completed\n", n)
		}
		return &dialect.Exit{Code: o.stop.Code}
	}
	if c.progressStep > 0 {
		fmt.Fprintf(stderr, "Finished %d requests\n", len(o.requests))
	} else {
		fmt.Fprintln(stdout, "..done")
	}
	if c.html {
		c.printHTML(stdout, r, o)
		return nil // with -w, ab writes no files
	}
	c.printSubject(stdout, r, o)
	c.printCounts(stdout, o)
	c.printRates(stdout, o)
	if len(o.requests) == 0 {
		return nil
	}
	c.printTimes(stdout, o)
	sorted := byTotal(o.requests)
	if !c.noPercentiles && len(sorted) > 1 {
		printPercentiles(stdout, sorted)
	}
	return c.writeFiles(sorted)
}

func (c *Command) printSubject(w io.Writer, r *load.Result, o *outcome) {
	fmt.Fprintf(w, "\n\nServer Software:        %s\n", server(r.Head))
	fmt.Fprintf(w, "Server Hostname:        %s\n", c.server.Hostname())
	fmt.Fprintf(w, "Server Port:            %d\n", c.server.Port)
	if s := &c.session; s.protocol != "" {
		fmt.Fprintf(w, "SSL/TLS Protocol:       %s\n", s.protocol)
		if s.temp != "" {
			fmt.Fprintf(w, "Server Temp Key:        %s\n", s.temp)
		}
	}
	if name := c.serverName(); c.server.Scheme == "https" && name != "" {
		fmt.Fprintf(w, "TLS Server Name:        %s\n", name)
	}
	fmt.Fprintf(w, "\nDocument Path:          %s\n", c.path)
	fmt.Fprintf(w, "Document Length:        %s\n\n", c.lengthText(o))
}

func (c *Command) lengthText(o *outcome) string {
	if c.anyLength {
		return "Variable"
	}
	return fmt.Sprintf("%d bytes", o.documentLength)
}

func (c *Command) printCounts(w io.Writer, o *outcome) {
	fmt.Fprintf(w, "Concurrency Level:      %d\n", c.concurrency)
	fmt.Fprintf(w, "Time taken for tests:   %.3f seconds\n", o.seconds)
	fmt.Fprintf(w, "Complete requests:      %d\n", len(o.requests))
	fmt.Fprintf(w, "Failed requests:        %d\n", o.failed())
	if o.failed() > 0 {
		fmt.Fprintf(w, "   (Connect: %d, Receive: %d, Length: %d, Exceptions: %d)\n", o.connect, o.receive, o.length,
			o.exceptions)
	}
	if o.writes > 0 {
		fmt.Fprintf(w, "Write errors:           %d\n", o.writes)
	}
	if o.non2xx > 0 {
		fmt.Fprintf(w, "Non-2xx responses:      %d\n", o.non2xx)
	}
	if c.keepAlive {
		fmt.Fprintf(w, "Keep-Alive requests:    %d\n", o.kept)
	}
	fmt.Fprintf(w, "Total transferred:      %d bytes\n", o.transferred)
	if c.sendsBody {
		fmt.Fprintf(w, "Total body sent:        %d\n", o.sent)
	}
	fmt.Fprintf(w, "HTML transferred:       %d bytes\n", o.html)
}

func (c *Command) printRates(w io.Writer, o *outcome) {
	done, seconds := float64(len(o.requests)), o.seconds
	if done == 0 || seconds == 0 {
		return
	}
	fmt.Fprintf(w, "Requests per second:    %.2f [#/sec] (mean)\n", done/seconds)
	fmt.Fprintf(w, "Time per request:       %.3f [ms] (mean)\n", float64(c.concurrency)*seconds*1000/done)
	fmt.Fprintf(w, "Time per request:       %.3f [ms] (mean, across all concurrent requests)\n", seconds*1000/done)
	fmt.Fprintf(w, "Transfer rate:          %.2f [Kbytes/sec] received\n", kilobytes(o.transferred)/seconds)
	if c.sendsBody {
		fmt.Fprintf(w, "                        %.2f kb/s sent\n", kilobytes(o.sent)/seconds)
		fmt.Fprintf(w, "                        %.2f kb/s total\n", kilobytes(o.transferred+o.sent)/seconds)
	}
}

func kilobytes(bytes int64) float64 { return float64(bytes) / 1024 }

type row struct {
	name  string // start of the line
	about string // name in warnings
	column
}

func (o *outcome) rows() []row {
	return []row{
		{"Connect:    ", "the initial connection time", columnOf(o.requests, connectTime)},
		{"Processing: ", "the processing time", columnOf(o.requests, processingTime)},
		{"Waiting:    ", "the waiting time", columnOf(o.requests, waitTime)},
		{"Total:      ", "the total time", columnOf(o.requests, totalTime)},
	}
}

func (c *Command) printTimes(w io.Writer, o *outcome) {
	fmt.Fprintln(w, "\nConnection Times (ms)")
	if c.noDeviation {
		fmt.Fprintln(w, "              min   avg   max")
		for _, r := range o.rows() {
			fmt.Fprintf(w, "%s%5d %5d%5d\n", r.name, r.min, r.mean, r.max)
		}
		return
	}
	fmt.Fprintln(w, "              min  mean[+/-sd] median   max")
	rows := o.rows()
	for _, r := range rows {
		fmt.Fprintf(w, "%s%5d %4d %5.1f %6d %7d\n", r.name, r.min, r.mean, r.deviation, r.median, r.max)
	}
	for _, r := range rows {
		r.warn(w)
	}
}

// warn prints ab's warning about a row whose mean is far from its median.
func (r *row) warn(w io.Writer) {
	apart := float64(max(r.mean-r.median, r.median-r.mean))
	switch {
	case apart > 2*r.deviation:
		fmt.Fprintf(w, "ERROR: The median and mean for %s are more than twice the standard\n"+
			"       deviation apart. These results are NOT reliable.\n", r.about)
	case apart > r.deviation:
		fmt.Fprintf(w, "WARNING: The median and mean for %s are not within a normal deviation\n"+
			"        These results are probably not that reliable.\n", r.about)
	}
}

func printPercentiles(w io.Writer, sorted []request) {
	fmt.Fprintln(w, "\nPercentage of the requests served within a certain time (ms)")
	for _, percent := range []int{50, 66, 75, 80, 90, 95, 98, 99} {
		fmt.Fprintf(w, "  %d%%  %5d\n", percent, millis(sorted[len(sorted)*percent/100].total))
	}
	fmt.Fprintf(w, " 100%%  %5d (longest request)\n", millis(sorted[len(sorted)-1].total))
}
