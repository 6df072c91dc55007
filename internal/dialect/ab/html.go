package ab

import (
	"fmt"
	"io"

	"github.com/tarehq/tare/load"
)

func (c *Command) printHTML(w io.Writer, r *load.Result, o *outcome) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "<tr %s><th colspan=2 %s>%s</th><td colspan=2 %s>%s</td></tr>\n",
			c.rowAttributes, c.cells, name, c.cells, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(w, "\n\n<table %s>\n", c.tableAttributes)
	line("Server Software:", "%s", server(r.Head))
	line("Server Hostname:", "%s", c.server.Hostname())
	line("Server Port:", "%d", c.server.Port)
	line("Document Path:", "%s", c.path)
	line("Document Length:", "%s", c.lengthText(o))
	line("Concurrency Level:", "%d", c.concurrency)
	line("Time taken for tests:", "%.3f seconds", o.seconds)
	line("Complete requests:", "%d", len(o.requests))
	line("Failed requests:", "%d", o.failed())
	if o.failed() > 0 {
		fmt.Fprintf(w, "<tr %s><td colspan=4 %s >   (Connect: %d, Length: %d, Exceptions: %d)</td></tr>\n",
			c.rowAttributes, c.cells, o.connect, o.length, o.exceptions)
	}
	if o.non2xx > 0 {
		line("Non-2xx responses:", "%d", o.non2xx)
	}
	if c.keepAlive {
		line("Keep-Alive requests:", "%d", o.kept)
	}
	line("Total transferred:", "%d bytes", o.transferred)
	if c.sendsBody {
		line("Total body sent:", "%d", o.sent)
	}
	line("HTML transferred:", "%d bytes", o.html)
	if o.seconds > 0 {
		line("Requests per second:", "%.2f", float64(len(o.requests))/o.seconds)
		line("Transfer rate:", "%.2f kb/s received", kilobytes(o.transferred)/o.seconds)
		if c.sendsBody {
			c.htmlSent(w, "sent", kilobytes(o.sent)/o.seconds)
			c.htmlSent(w, "total", kilobytes(o.transferred+o.sent)/o.seconds)
		}
	}
	if len(o.requests) > 0 {
		c.htmlTimes(w, o)
	}
	fmt.Fprintln(w, "</table>")
}

func (c *Command) htmlSent(w io.Writer, what string, rate float64) {
	fmt.Fprintf(w, "<tr %s><td colspan=2 %s>&nbsp;</td><td colspan=2 %s>%.2f kb/s %s</td></tr>\n", c.rowAttributes,
		c.cells, c.cells, rate, what)
}

// htmlTimes prints the times of connecting and in total. Like ab, it prints the difference of the
// two as processing, which is the time of no request.
func (c *Command) htmlTimes(w io.Writer, o *outcome) {
	summary := func(time func(*request) int64) (low, mean, high int64) {
		col := columnOf(o.requests, time)
		var sum int64
		for i := range o.requests {
			sum += time(&o.requests[i])
		}
		return col.min, millis(sum) / int64(len(o.requests)), col.max
	}
	line := func(name string, low, mean, high int64) {
		fmt.Fprintf(w, "<tr %s><th %s>%s</th><td %s>%5d</td><td %s>%5d</td><td %s>%5d</td></tr>\n",
			c.rowAttributes, c.cells, name, c.cells, low, c.cells, mean, c.cells, high)
	}
	fmt.Fprintf(w, "<tr %s><th %s colspan=4>Connection Times (ms)</th></tr>\n", c.rowAttributes, c.cells)
	fmt.Fprintf(w, "<tr %s><th %s>&nbsp;</th> <th %s>min</th>   <th %s>avg</th>   <th %s>max</th></tr>\n",
		c.rowAttributes, c.cells, c.cells, c.cells, c.cells)
	low, mean, high := summary(connectTime)
	lowTotal, meanTotal, highTotal := summary(totalTime)
	line("Connect:", low, mean, high)
	line("Processing:", lowTotal-low, meanTotal-mean, highTotal-high)
	line("Total:", lowTotal, meanTotal, highTotal)
}
