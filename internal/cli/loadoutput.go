package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/load/report"
)

// outputs are the files that load writes, and what it prints.
type outputs struct{ all []*output }

// output is one of them.
type output struct {
	flag   string
	usage  string
	write  func(*report.Run, io.Writer) error
	joined bool // what a file has stays, and more is added

	name    string // of the file; "-" is standard output, empty none
	file    *os.File
	created bool // the file was not there before
}

// define defines a flag for each.
func (o *outputs) define(c *cobra.Command) {
	o.all = []*output{
		{flag: "json", usage: "write the result as JSON, with all histograms, to a `file` that follows = (default standard output)", write: writeJSON},
		{flag: "csv", usage: "write the figures as a row of CSV to a `file`; - is standard output (default none)", write: (*report.Run).WriteCSV},
		{flag: "hdr", usage: "write the latency of each second to a `file`, an HDR histogram log (default none)", write: (*report.Run).WriteHDRLog},
		{flag: "bench", usage: "add the figures to a `file`, in Go's benchmark format, for benchstat (default none)", write: (*report.Run).WriteBench, joined: true},
		{flag: "html", usage: "write a page to read to a `file` (default none)", write: (*report.Run).WritePage},
		{flag: "samples", usage: "write the times of each request to a `file`, as CSV (default none)", write: (*report.Run).WriteSamples},
	}
	for _, out := range o.all {
		c.Flags().StringVar(&out.name, out.flag, "", out.usage)
	}
	c.Flags().Lookup("json").NoOptDefVal = stdio
}

func writeJSON(r *report.Run, w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// wanted reports whether there is to be an output.
func (o *outputs) wanted(flag string) bool {
	for _, out := range o.all {
		if out.flag == flag {
			return out.name != ""
		}
	}
	panic("cli: BUG: no output " + flag)
}

// printed reports whether standard output is one of them, instead of the text for people.
func (o *outputs) printed() bool {
	for _, out := range o.all {
		if out.name == stdio {
			return true
		}
	}
	return false
}

// open opens the files, so that a run is not in vain if one cannot be written. What they hold
// stays until then.
func (o *outputs) open(env Env) error {
	printed := 0
	for _, out := range o.all {
		switch out.name {
		case "":
		case stdio:
			if printed++; printed > 1 {
				return errors.New("load: want one thing at most on standard output")
			}
		default:
			name := env.path(out.name)
			_, err := os.Stat(name)
			out.created = os.IsNotExist(err)
			out.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|out.mode(), 0o644)
			if err != nil {
				return fmt.Errorf("load: --%s: %w", out.flag, err)
			}
		}
	}
	return nil
}

func (out *output) mode() int {
	if out.joined {
		return os.O_APPEND
	}
	return 0
}

// write writes all outputs. It goes on after an error and returns the first.
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
	out.created = false // it is to stay
	if info, err := out.file.Stat(); err == nil && info.Mode().IsRegular() && !out.joined {
		if err := out.file.Truncate(0); err != nil {
			return err
		}
	}
	err := out.write(r, out.file)
	if closeErr := out.file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// close closes the files. One that was made and not written is taken away.
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
