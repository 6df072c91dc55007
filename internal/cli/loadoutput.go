//go:build linux

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/load/report"
)

type outputs struct{ all []*output }

type output struct {
	flag  string
	usage string
	write func(*report.Run, io.Writer) error
	mode  int // os.O_APPEND, or 0 to replace the contents of an existing file

	name    string // file name; "-" is standard output, empty none
	file    *os.File
	created bool // the file did not exist before
}

func (o *outputs) define(c *cobra.Command) {
	o.all = []*output{
		{flag: "json", usage: "write the result with all histograms as JSON to =`FILE`, or without a file to standard output (default none)",
			write: func(r *report.Run, w io.Writer) error { return writeJSON(w, r) }},
		{flag: "csv", usage: "write the figures as a row of CSV to `FILE`; - is standard output (default none)",
			write: (*report.Run).WriteCSV},
		{flag: "hdr", usage: "write the latency of each second as an HDR histogram log to `FILE` (default none)",
			write: (*report.Run).WriteHDRLog},
		{flag: "bench", usage: "append the figures to `FILE` in Go's benchmark format, for benchstat (default none)",
			write: (*report.Run).WriteBench, mode: os.O_APPEND},
		{flag: "html", usage: "write the report as an HTML page to `FILE` (default none)",
			write: (*report.Run).WritePage},
		{flag: "samples", usage: "write the times of each request as CSV to `FILE` (default none)",
			write: (*report.Run).WriteSamples},
	}
	for _, out := range o.all {
		c.Flags().StringVar(&out.name, out.flag, "", out.usage)
	}
	c.Flags().Lookup("json").NoOptDefVal = stdio
}

// usesStdout reports whether an output goes to standard output, which replaces the text report.
func (o *outputs) usesStdout() bool {
	return slices.ContainsFunc(o.all, func(out *output) bool { return out.name == stdio })
}

// open opens the files before the run, so that an unwritable one is reported early. Existing
// contents stay until the outputs are written.
func (o *outputs) open(env Env) error {
	printed := 0
	for _, out := range o.all {
		switch out.name {
		case "":
		case stdio:
			if printed++; printed > 1 {
				return errors.New("load: several outputs are - (standard output): want a file for all but one")
			}
		default:
			name := env.path(out.name)
			_, err := os.Stat(name)
			out.created = os.IsNotExist(err)
			out.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|out.mode, 0o644)
			if err != nil {
				return fmt.Errorf("load: --%s: %w", out.flag, err)
			}
		}
	}
	return nil
}

// write writes all outputs. It continues after an error and returns the first one.
func (o *outputs) write(env Env, r *report.Run) (first error) {
	for _, out := range o.all {
		if out.name == "" {
			continue
		}
		if err := out.writeTo(env, r); err != nil && first == nil {
			first = fmt.Errorf("load: --%s: %w", out.flag, err)
		}
	}
	return first
}

func (out *output) writeTo(env Env, r *report.Run) error {
	if out.file == nil {
		return out.write(r, env.Stdout)
	}
	out.created = false // keep it from now on
	if info, err := out.file.Stat(); err == nil && info.Mode().IsRegular() && out.mode == 0 {
		if err := out.file.Truncate(0); err != nil {
			return err
		}
	}
	return cmp.Or(out.write(r, out.file), out.file.Close())
}

// close closes the files and removes those that were created but not written.
func (o *outputs) close() {
	for _, out := range o.all {
		if out.file == nil {
			continue
		}
		_ = out.file.Close() // it may be closed already
		if out.created {
			os.Remove(out.file.Name())
		}
	}
}
