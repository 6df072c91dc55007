package siege

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/tarehq/tare/load"
)

// Report prints siege's output after a run. That is each transaction with -v, and the summary on
// stderr or, with -j, JSON on stdout. It also writes a line to the log file.
func (c *Command) Report(stdout, stderr io.Writer, r *load.Result) error {
	o := count(r)
	if c.verbose {
		c.printTransactions(stdout, r)
	}
	if !c.quiet {
		if c.time > 0 || r.Requests+o.unanswered < c.requests() {
			fmt.Fprint(stderr, "\nLifting the server siege...")
		}
		printSummary(stderr, &o)
	}
	if c.json {
		fmt.Fprintln(stderr)
		printJSON(stdout, &o)
	}
	if c.logging {
		return c.writeLog(&o)
	}
	return nil
}

func printSummary(w io.Writer, o *outcome) {
	fmt.Fprintf(w, "\nTransactions:\t\t%12d hits\n", o.hits)
	fmt.Fprintf(w, "Availability:\t\t%12.2f %%\n", o.availability())
	fmt.Fprintf(w, "Elapsed time:\t\t%12.2f secs\n", o.seconds)
	fmt.Fprintf(w, "Data transferred:\t%12.2f MB\n", o.megabytes)
	fmt.Fprintf(w, "Response time:\t\t%12.2f secs\n", o.responseTime())
	fmt.Fprintf(w, "Transaction rate:\t%12.2f trans/sec\n", o.rate())
	fmt.Fprintf(w, "Throughput:\t\t%12.2f MB/sec\n", o.throughput())
	fmt.Fprintf(w, "Concurrency:\t\t%12.2f\n", o.concurrency())
	fmt.Fprintf(w, "Successful transactions:%12d\n", o.successful)
	fmt.Fprintf(w, "Failed transactions:\t%12d\n", o.failed)
	fmt.Fprintf(w, "Longest transaction:\t%12.2f\n", o.longest.Seconds())
	fmt.Fprintf(w, "Shortest transaction:\t%12.2f\n \n", o.shortestSeconds())
}

func printJSON(w io.Writer, o *outcome) {
	fmt.Fprintf(w, "{\t\"transactions\":\t\t\t%12d,\n", o.hits)
	fmt.Fprintf(w, "\t\"availability\":\t\t\t%12.2f,\n", o.availability())
	fmt.Fprintf(w, "\t\"elapsed_time\":\t\t\t%12.2f,\n", o.seconds)
	fmt.Fprintf(w, "\t\"data_transferred\":\t\t%12.2f,\n", o.megabytes)
	fmt.Fprintf(w, "\t\"response_time\":\t\t%12.2f,\n", o.responseTime())
	fmt.Fprintf(w, "\t\"transaction_rate\":\t\t%12.2f,\n", o.rate())
	fmt.Fprintf(w, "\t\"throughput\":\t\t\t%12.2f,\n", o.throughput())
	fmt.Fprintf(w, "\t\"concurrency\":\t\t\t%12.2f,\n", o.concurrency())
	fmt.Fprintf(w, "\t\"successful_transactions\":\t%12d,\n", o.successful)
	fmt.Fprintf(w, "\t\"failed_transactions\":\t\t%12d,\n", o.failed)
	fmt.Fprintf(w, "\t\"longest_transaction\":\t\t%12.2f,\n", o.longest.Seconds())
	fmt.Fprintf(w, "\t\"shortest_transaction\":\t\t%12.2f\n}\n", o.shortestSeconds())
}

// printTransactions prints a line for each response, without siege's colors. siege prints them
// during the run.
func (c *Command) printTransactions(out io.Writer, r *load.Result) {
	w := bufio.NewWriter(out)
	protocol, _, _ := strings.Cut(r.Head, " ")
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Status == 0 {
			continue
		}
		t := &c.urls[int(s.Request)%len(c.urls)]
		fmt.Fprintf(w, "%s %d    %5.2f secs: %7d bytes ==> %-4s %s\n",
			protocol, s.Status, (s.Done - s.Sent + s.Connect).Seconds(), s.Body, t.method, t.shown)
	}
	_ = w.Flush()
}
