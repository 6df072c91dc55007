package events_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// Every kind of stream passes through contenders, beside a client that stops reading. A reload and
// an upgrade lose none. The slow version has more contenders.
func TestStreamsSurviveReloadsAndUpgrades(t *testing.T) {
	testkit.Long(t, "it starts every contender")
	names := []string{"nethttp", "nginx", "front"}
	if testkit.Slow() {
		names = append(names, "tare", "bound")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streamThrough(t, name)
		})
	}
}

// streamThrough carries out the project's case of a name with every kind of stream.
func streamThrough(t *testing.T, name string) {
	t.Helper()
	const clients = 20
	r, dir, err := lab.Weigh(context.Background(), lab.Options{
		Root: programs.Root(t), Experiment: "streams", Out: t.TempDir(), Logf: t.Logf, Tools: programs.Tools(t),
		Only: []string{name},
		Adjust: func(trials *lab.Trials) {
			trials.Connections, trials.Measure = []int{clients}, yamlfile.Duration(300*time.Millisecond)
		},
	})
	testkit.Must(t, err)
	testkit.Equal(t, len(r.Events.Cases), 4, "cases")
	for i := range r.Events.Cases {
		c := &r.Events.Cases[i]
		s := c.Streams
		if c.Absent != "" || s == nil || s.Opened != clients || s.Memory[0] == 0 || s.Memory[1] == 0 {
			t.Errorf("%s: %q, %+v", c.Name, c.Absent, s)
			continue
		}
		var steps []string
		var events int64
		for _, p := range s.Phases {
			steps = append(steps, p.Step)
			events += p.Latency.Count()
			if p.Lost > 0 || p.Length <= 0 {
				t.Errorf("%s: after %q: %d streams lost, within %v", c.Name, p.Step, p.Lost, p.Length)
			}
		}
		if !slices.Contains(steps, "stall") || !slices.Contains(steps, "upgrade") {
			t.Errorf("%s: steps %q", c.Name, steps)
		}
		if events == 0 && !strings.Contains(c.Name, "tokens") { // others have one a second and client
			t.Errorf("%s: no events", c.Name)
		}
	}
	testkit.Check(t, report.New(r).WriteFiles(dir))
}

// Streams that end before their clients close them are lost, also with an invalid event.
func TestLostStreamsAreCounted(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	t.Parallel()
	const clients = 5
	r := weigh(t, `kind: events
title: A test
length: 2s
timeout: 1s
streams:
  clients: [5]
  measure: 1s
  kinds:
    - {name: good, title: good, protocol: sse, every: 50ms, burst: 1}
    - {name: bad, title: bad, protocol: sse, every: 50ms, burst: 2}
cases:
  - {name: kill, title: kill, about: The application is killed, contender: app, plan: [{at: 1s, do: kill}]}
`)
	for i, wantEvents := range []bool{true, false} {
		c := &r.Events.Cases[i]
		lost := 0
		for _, p := range c.Streams.Phases {
			lost += p.Lost
		}
		if p := c.Streams.Phase(""); c.Streams.Opened != clients || lost != clients ||
			p.Latency.Count() > 0 != wantEvents {
			t.Errorf("%s: %+v", c.Name, c.Streams)
		}
	}
	want := fmt.Sprintf("kill lost %d of %d streams.", 2*clients, 2*clients)
	testkit.Equal(t, report.New(r).Verdict(), want)
}

// playStream sends valid events, or after the first one invalid events if these are two a burst.
func playStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for n := 0; ; n++ {
		event := fmt.Sprintf("data: %020d\n\n", n)
		if r.FormValue("burst") == "2" && n > 0 {
			event = "data: invalid\n\n"
		}
		if _, err := io.WriteString(w, event); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
