package ab

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

func (c *Command) writeFiles(sorted []request) error {
	if c.csvFile != "" {
		if err := writeFile(c.csvFile, func(w io.Writer) { writeCSV(w, sorted) }); err != nil {
			return fmt.Errorf("ab: write the CSV file of -e: %w", err)
		}
	}
	if c.plotFile != "" {
		if err := writeFile(c.plotFile, func(w io.Writer) { c.writePlot(w, sorted) }); err != nil {
			return fmt.Errorf("ab: write the gnuplot file of -g: %w", err)
		}
	}
	return nil
}

// writeFile creates a file and returns the first error of creating, writing and closing.
func writeFile(name string, write func(io.Writer)) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	write(w)
	err = w.Flush()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// writeCSV writes the time within which each percentage of the requests was served.
func writeCSV(w io.Writer, sorted []request) {
	fmt.Fprintln(w, "Percentage served,Time in ms")
	for percent := range 101 {
		i := int(0.5 + float64(len(sorted)*percent)/100)
		if percent == 0 {
			i = 0
		}
		fmt.Fprintf(w, "%d,%.3f\n", percent, float64(sorted[min(i, len(sorted)-1)].total)/1000)
	}
}

// writePlot writes a line for each request, by total time. Plotted in this order, the lines do not
// show a course of time.
func (c *Command) writePlot(w io.Writer, sorted []request) {
	fmt.Fprintln(w, "starttime\tseconds\tctime\tdtime\tttime\twait")
	for i := range sorted {
		r := &sorted[i]
		at := c.started.Add(r.start)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", at.Format(ctime), at.Unix(),
			millis(r.connect), millis(r.processing()), millis(r.total), millis(r.wait))
	}
}

const ctime = "Mon Jan 02 15:04:05 2006" // layout of C's ctime, with APR's two-digit day
