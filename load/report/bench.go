package report

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode"
)

// WriteBench writes the run as one line of Go's benchmark format, which benchstat reads
// (go.dev/design/14313-benchmark-format). The lines of several runs may share a file. A run without
// a response has no line.
func (r *Run) WriteBench(w io.Writer) error {
	if r.Requests == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Unit req/s better=higher\nUnit errors/req better=lower\ncpu: %s\ntare: %s\n\n",
		r.About.Machine.CPU, r.About.Tool)
	fmt.Fprintf(&b, "BenchmarkLoad/path=%s/connections=%d %d", benchName(r.URL), r.Connections, r.Requests)
	value := func(v float64, unit string) { fmt.Fprintf(&b, " %v %s", v, unit) }
	value(r.PerSecond(), "req/s")
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
		value(float64(r.Latency.Quantile(q)), fmt.Sprintf("p%g-ns", 100*q))
	}
	value(float64(r.Latency.Mean()), "mean-ns")
	value(r.perRequest(float64(r.Bytes)), "B/req")
	value(r.perRequest(float64(r.Errors.Total())), "errors/req")
	g := &r.Generator
	if g.UserSeconds > 0 { // benchstat treats 0 ns and other times as different units
		value(r.perRequest(g.UserSeconds*1e9), "user-ns/req")
	}
	if g.SysSeconds > 0 {
		value(r.perRequest(g.SysSeconds*1e9), "sys-ns/req")
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// benchName returns a URL's path as part of a benchmark's name, which slashes and spaces would end.
func benchName(text string) string {
	path := ""
	if u, err := url.Parse(text); err == nil {
		path = u.EscapedPath()
		if strings.HasSuffix(u.Scheme, "+unix") { // the socket's path ends at the first colon
			_, path, _ = strings.Cut(path, ":")
		}
	}
	path = cmp.Or(path, "/")
	return strings.Map(func(c rune) rune {
		if c == '/' || unicode.IsSpace(c) || !unicode.IsPrint(c) {
			return '_'
		}
		return c
	}, path)
}
