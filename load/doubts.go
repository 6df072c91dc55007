package load

import (
	"fmt"
	"strings"
	"time"
)

// Thresholds of Result.Doubts.
const (
	busyBound = 0.9 // least Generator.Busy at which Generator.MayLimit reports true
	// maxLagShare limits the 99th percentile of Lag as a share of the median latency; a lag below
	// minLag is always accepted.
	maxLagShare, minLag = 0.1, 100 * time.Microsecond
	minResponseShare    = 0.99             // share of due requests that must have a response
	maxApart            = time.Millisecond // how far apart the parts of a joined Result may begin
	maxBehind           = 2 * time.Second  // how long after its end a second of a part may be reported
)

// Doubts returns why the generator or the Plan, rather than the server, may have determined the
// figures. A reason that applies to several parts of a joined Result is one text.
func (r *Result) Doubts() (doubts []string) {
	if len(r.Parts) == 0 {
		g := namedGenerator{generator: &r.Generator}
		if r.Generator.Lag != nil { // a Result with a schedule
			g.median = r.Latency.Quantile(0.5)
		}
		doubts = generatorDoubts([]namedGenerator{g})
	}
	doubts = append(doubts, r.partDoubts()...)
	if r.Due > 0 {
		e := &r.Errors // errors that a slow server does not explain are left out
		missing := r.Due - float64(r.Requests) - float64(e.Read+e.Write+e.Refused)
		if missing > (1-minResponseShare)*r.Due+r.inFlightAllowance(nil) {
			doubts = append(doubts,
				fmt.Sprintf("of %.0f due requests, %d had a response and %d were in flight at the end: the server was too slow for the rate, or %d connections were too few",
					r.Due, r.Requests, r.InFlight, r.Connections))
		}
	}
	return doubts
}

// namedGenerator is a generator, the name of its part, and its median latency. A generator that is
// alone has no name.
type namedGenerator struct {
	name      string
	generator *Generator
	median    time.Duration
}

func generatorDoubts(all []namedGenerator) (doubts []string) {
	var busy, late []string
	mostBusy, latest := 0.0, time.Duration(0)
	for _, g := range all {
		if g.generator.MayLimit() {
			busy, mostBusy = append(busy, g.name), max(mostBusy, g.generator.Busy)
		}
		if g.generator.Lag == nil {
			continue
		}
		lag := g.generator.Lag.Quantile(0.99)
		if lag > max(minLag, time.Duration(maxLagShare*float64(g.median))) {
			late, latest = append(late, g.name), max(latest, lag)
		}
	}
	switch len(busy) {
	case 0:
	case 1:
		doubts = append(doubts, fmt.Sprintf("%s busy %.0f%% of the time: it, not the server, may have limited the rate",
			generatorsWere(busy), 100*mostBusy))
	default:
		doubts = append(doubts,
			fmt.Sprintf("%s busy up to %.0f%% of the time: they, not the server, may have limited the rate",
				generatorsWere(busy), 100*mostBusy))
	}
	const why = "sent 1 %% of requests %v or more after they were due, although a connection was free"
	switch latest = threeDigits(latest); len(late) {
	case 0:
	case 1:
		doubts = append(doubts, fmt.Sprintf("%s late: it "+why, generatorsWere(late), latest))
	default:
		doubts = append(doubts, fmt.Sprintf("%s late: the latest "+why, generatorsWere(late), latest))
	}
	return doubts
}

// generatorsWere returns the beginning of a sentence about the generators of parts.
func generatorsWere(names []string) string {
	last := len(names) - 1
	switch {
	case names[0] == "":
		return "the generator was"
	case last == 0:
		return "the generator on " + names[0] + " was"
	}
	return "the generators on " + strings.Join(names[:last], ", ") + " and " + names[last] + " were"
}

func (r *Result) partDoubts() (doubts []string) {
	last := time.Duration(0)
	var generators []namedGenerator
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Lost != "" {
			doubts = append(doubts, fmt.Sprintf("the generator on %s was lost: %s", p.Name, p.Lost))
		}
		if p.Behind > maxBehind {
			doubts = append(doubts, fmt.Sprintf("the generator on %s fell behind: it reported a second %.1f s after its end",
				p.Name, p.Behind.Seconds()))
		}
		generators = append(generators, namedGenerator{p.Name, &p.Generator, p.Latency.P50})
		last = max(last, p.Began)
	}
	doubts = append(doubts, generatorDoubts(generators)...)
	if last > maxApart {
		doubts = append(doubts, fmt.Sprintf("the generators began %v apart", threeDigits(last)))
	}
	return doubts
}
