package report

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

func TestEachProblemHasItsWarning(t *testing.T) {
	every := func(name string, f func(*sample.Record)) func(*sample.Run) {
		return func(run *sample.Run) {
			change(run, name, func(r *sample.Record) {
				if r.Connections == connections {
					f(r)
				}
			})
		}
	}
	for _, test := range []struct {
		want   string
		row    string
		change func(*sample.Run)
	}{
		{"1 of 6 trials failed: it fell over", "tare", every("tare", func(r *sample.Record) {
			if r.Block == 2 {
				r.Failure, r.Load = "it fell over\nand so on", nil
			}
		})},
		{"the twin is a copy of the control, but its interval excludes 1: do not trust differences below 10 %", "twin",
			func(r *sample.Run) { scale(r, "twin", func(int) float64 { return 1.1 }) }},
		{"the load generator was 95 % busy", "ceiling",
			every("ceiling", func(r *sample.Record) { r.Load.Generator.Busy = 0.95 })},
		{"12 errors beside 600000 responses; the first error: read: nonsense", "tare",
			every("tare", func(r *sample.Record) { r.Load.Errors = load.Errors{Read: 2, First: "read: nonsense"} })},
		{"clients had to open 30 connections again", "tare",
			every("tare", func(r *sample.Record) { r.Load.Connects = 5 })},
		{"other programs used 0.25 of a CPU, so", "tare", every("tare",
			func(r *sample.Record) { r.Others = time.Duration(r.Load.Seconds * 5e8) })},
		{"only 3 of 6 blocks were measured, which are too few for an interval", "tare", every("tare", func(r *sample.Record) {
			if r.Block > 3 {
				r.Contender = "nobody"
			}
		})},
	} {
		run := fixture()
		test.change(run)
		var all []string
		for _, row := range New(run).Tables[0].Rows {
			for _, w := range row.Warnings {
				all = append(all, row.Name+": "+w)
			}
		}
		found := false
		for _, w := range all {
			if strings.HasPrefix(w, test.row+": "+test.want) {
				found = true
			} else if !strings.Contains(w, "too few") {
				t.Errorf("%s: additional warning: %s", test.want, w)
			}
		}
		if !found {
			t.Errorf("missing warning: %s: %s; got: %v", test.row, test.want, all)
		}
	}
}

// If a server keeps no connections, clients may open new ones without a warning.
func TestClosedConnectionsCauseNoWarning(t *testing.T) {
	run := fixture()
	e := run.Entrant("tare")
	response := *e.Response
	response.KeepAlive = false
	e.Response = &response
	change(run, "tare", func(r *sample.Record) { r.Load.Connects = r.Load.Requests })
	testkit.Equal(t, len(New(run).Tables[0].Named("tare").Warnings), 0, "warnings")
}

// A warning of several rows is shown once.
func TestEqualWarningsAreGrouped(t *testing.T) {
	run := fixture()
	for _, name := range []string{"tare", "fasthttp"} {
		change(run, name, func(r *sample.Record) { r.Load.Generator.Busy = 0.97 })
	}
	warnings := New(run).Tables[0].warnings()
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "fasthttp and tare: the load generator was 97 % busy") {
		t.Errorf("%+v", warnings)
	}
}

// drawnRows returns numbers of the elements in each row of a chart, by attribute.
func drawnRows(c *page.Drawing) (rows []map[string][]float64) {
	element, attribute := regexp.MustCompile(`<(\w+)([^>]*)>`), regexp.MustCompile(` (x|x1|x2|cx|width)="([^"]*)"`)
	for _, group := range strings.Split(string(c.HTML()), "\n<g class=")[1:] {
		if strings.HasPrefix(group, `"tick"`) {
			continue
		}
		row := make(map[string][]float64)
		for _, e := range element.FindAllStringSubmatch(group, -1) {
			for _, m := range attribute.FindAllStringSubmatch(e[2], -1) {
				key := m[1]
				if key == "x" {
					key = e[1] + " x"
				}
				v, _ := strconv.ParseFloat(m[2], 64)
				row[key] = append(row[key], v)
			}
		}
		rows = append(rows, row)
	}
	return rows
}
