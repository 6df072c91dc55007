package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

type streamTable struct {
	Title string
	cases []*sample.Case
}

// streamTables returns a table for each kind and number, in the order of the cases.
func (a *Report) streamTables() (all []streamTable) {
	for i := range a.Events.Cases {
		c := &a.Events.Cases[i]
		if c.Streams == nil || c.Streams.Phase("") == nil {
			continue
		}
		title := fmt.Sprintf("%d clients: %s", c.Streams.Clients, c.Streams.Kind)
		if n := len(all); n == 0 || all[n-1].Title != title {
			all = append(all, streamTable{Title: title})
		}
		last := &all[len(all)-1]
		last.cases = append(last.cases, c)
	}
	return all
}

func streamColumns() []document.Column[*sample.Case] {
	type line = *sample.Case
	figure := func(name, head, unit string, of func(*sample.Streams) float64) document.Column[line] {
		return document.Figure(name, func(c line) float64 { return of(c.Streams) }).
			For(head, func(c line) string {
				if v := of(c.Streams); !math.IsNaN(v) {
					return fixed(1, v) + unit
				}
				return ""
			}).InBrief()
	}
	quantile := func(step string, q float64) func(*sample.Streams) float64 {
		return func(s *sample.Streams) float64 {
			if p := s.Phase(step); p != nil && p.Latency.Count() > 0 {
				return float64(p.Latency.Quantile(q)) / 1e6
			}
			return math.NaN()
		}
	}
	lost := func(name, head string, steps ...string) document.Column[line] {
		of := func(c line) string { return lostStreams(c.Streams, steps) }
		return document.Text(name, of).For(head, of).InBrief()
	}
	return []document.Column[line]{
		document.Text("case", func(c line) string { return c.Name }).
			For("", func(c line) string { return c.Title }).InBrief(),
		document.Count("clients", func(c line) int { return c.Streams.Clients }),
		document.Count("open", func(c line) int { return c.Streams.Opened }).
			For("open", func(c line) string { return strconv.Itoa(c.Streams.Opened) }),
		figure("stream_kb", "a stream", " KB", func(s *sample.Streams) float64 { return s.PerStream() / 1e3 }),
		figure("event_us", "an event", " µs", func(s *sample.Streams) float64 { return float64(s.PerEvent()) / 1e3 }),
		figure("p50_ms", "p50", " ms", quantile("", 0.5)),
		figure("p99_ms", "p99", " ms", quantile("", 0.99)),
		figure("stalled_p99_ms", "stalled", " ms", quantile("stall", 0.99)),
		lost("lost", "lost", sample.Opening, "", "stall"),
		lost("lost_reload", "reload", "reload"),
		lost("lost_deploy", "deploy", "upgrade", "restart"),
	}
}

// lostStreams returns how many streams were lost after some steps; "" if none of these happened.
func lostStreams(s *sample.Streams, steps []string) string {
	happened, n := false, 0
	for _, p := range s.Phases {
		if slices.Contains(steps, p.Step) {
			happened, n = true, n+p.Lost
		}
	}
	if !happened {
		return ""
	}
	return strconv.Itoa(n)
}

// streamsVerdict returns which servers lost streams when something happened to them.
func streamsVerdict(tables []streamTable) string {
	lost, opened := make(map[string]int), make(map[string]int)
	var titles []string
	for _, t := range tables {
		for _, c := range t.cases {
			if !slices.Contains(titles, c.Title) {
				titles = append(titles, c.Title)
			}
			opened[c.Title] += c.Streams.Opened
			for _, p := range c.Streams.Phases {
				lost[c.Title] += p.Lost
			}
		}
	}
	isLossless := func(title string) bool { return lost[title] == 0 }
	var sentences []string
	if none := slices.DeleteFunc(slices.Clone(titles), func(t string) bool { return !isLossless(t) }); len(none) > 0 {
		sentences = append(sentences, fmt.Sprintf("No stream was lost with %s.", sample.List(none)))
	}
	for _, title := range slices.DeleteFunc(titles, isLossless) {
		sentences = append(sentences, fmt.Sprintf("%s lost %d of %d streams.", title, lost[title], opened[title]))
	}
	return strings.Join(sentences, " ")
}

const streamsNote = "A stream: memory of all processes of the server. An event: their CPU time. p50 and p99: from the " +
	"server's write until the client has read; of websockets a round trip. Stalled: p99 of the others beside a " +
	"client that stopped reading. Reload, deploy: streams that were lost in one. With more clients " +
	"than its descriptors allow, a server runs in several copies."
