package report

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"
)

// WriteBench writes the run as one line of Go's benchmark format, which benchstat reads. The lines
// of several runs may share a file. A run without a response has no line.
func (r *Run) WriteBench(w io.Writer) error {
	if r.Requests == 0 {
		return nil
	}
	out := benchfmt.NewWriter(w)
	for _, unit := range []struct{ name, better string }{{"req/s", "higher"}, {"errors/req", "lower"}} {
		m := &benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: unit.name, Key: "better"},
			OrigUnit: unit.name, Value: unit.better}
		if err := out.Write(m); err != nil {
			return err
		}
	}
	ns := func(q float64) float64 { return float64(r.Latency.Quantile(q)) }
	res := &benchfmt.Result{
		Name:  benchfmt.Name(fmt.Sprintf("Load/path=%s/connections=%d", benchName(r.URL), r.Connections)),
		Iters: int(r.Requests),
		Config: []benchfmt.Config{
			{Key: "cpu", Value: []byte(r.About.Machine.CPU), File: true},
			{Key: "tare", Value: []byte(r.About.Tool), File: true},
		},
		Values: []benchfmt.Value{
			{Value: r.PerSecond(), Unit: "req/s"},
			{Value: ns(0.5), Unit: "p50-ns"}, {Value: ns(0.9), Unit: "p90-ns"}, {Value: ns(0.99), Unit: "p99-ns"},
			{Value: ns(0.999), Unit: "p99.9-ns"},
			{Value: float64(r.Latency.Mean()), Unit: "mean-ns"},
			{Value: r.perRequest(float64(r.Bytes)), Unit: "B/req"},
			{Value: r.perRequest(float64(r.Errors.Total())), Unit: "errors/req"},
		},
	}
	for _, cost := range []benchfmt.Value{
		{Value: r.perRequest(r.Generator.UserSeconds * 1e9), Unit: "user-ns/req"},
		{Value: r.perRequest(r.Generator.SysSeconds * 1e9), Unit: "sys-ns/req"},
	} {
		if cost.Value > 0 { // benchstat treats 0 ns and other times as different units
			res.Values = append(res.Values, cost)
		}
	}
	return out.Write(res)
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
