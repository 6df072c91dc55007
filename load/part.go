package load

import (
	"cmp"
	"math/bits"
	"slices"
)

// Part is the place of a Plan within a whole Plan that several processes run together; see
// Plan.Split. The zero value means that the Plan is a whole one.
type Part struct {
	Threads     int `json:"threads"`     // of the whole Plan; 0 if the Plan is no part
	FirstThread int `json:"firstThread"` // number of this part's first thread among them

	Connections     int `json:"connections"`     // of the whole Plan
	FirstConnection int `json:"firstConnection"` // number of this part's first connection among them
}

func (p *Part) isPart() bool { return p.Threads > 0 }

func (p *Plan) wholeThreads() int { return cmp.Or(p.Part.Threads, p.Threads) }

func (p *Plan) checkPart() error {
	w := &p.Part
	isInside := func(first, own, all int) bool { return first >= 0 && first <= all-own }
	if *w == (Part{}) || w.Threads >= 1 && isInside(w.FirstThread, p.Threads, w.Threads) &&
		isInside(w.FirstConnection, p.Connections, w.Connections) {
		return nil
	}
	return badPlan("part of a plan: threads from %d on of %d, connections from %d on of %d: want the plan's %d and %d among them",
		w.FirstThread, w.Threads, w.FirstConnection, w.Connections, p.Threads, p.Connections)
}

// Split divides a whole Plan into parts for several processes, one for each number of threads. If
// there are more threads than connections, the parts with the most threads use fewer.
//
// Together the parts send what one process with all these threads sends: each thread has the same
// connections, schedule, random sequence, sequence numbers and place in the list of requests.
// Requests are divided in proportion to the connections. MaxErrors limits each part; the caller
// stops the others. A Joiner joins the results.
func (p Plan) Split(threads []int) ([]Plan, error) {
	if p.Part.isPart() || len(threads) == 0 {
		return nil, badPlan("cannot split a part of a plan, or a plan into %d parts", len(threads))
	}
	p.Connections = cmp.Or(p.Connections, DefaultConnections)
	if p.Requests == 0 {
		p.Duration = cmp.Or(p.Duration, DefaultDuration)
	}
	if p.Connections < len(threads) {
		return nil, badPlan("%d connections for %d processes: want at least one for each", p.Connections, len(threads))
	}
	threads, whole := limitThreads(threads, p.Connections)
	parts := make([]Plan, 0, len(threads))
	thread, conn := 0, 0
	for _, own := range threads {
		part := p
		part.Threads, part.Connections = own, 0
		for i := thread; i < thread+own; i++ {
			part.Connections += shareOf(p.Connections, i, whole)
		}
		part.Part = Part{Threads: whole, FirstThread: thread, Connections: p.Connections, FirstConnection: conn}
		thread, conn = thread+own, conn+part.Connections
		if p.Requests > 0 {
			part.Requests = portion(p.Requests, conn, p.Connections) -
				portion(p.Requests, conn-part.Connections, p.Connections)
			if part.Requests == 0 {
				return nil, badPlan("%d requests on %d connections are too few for %d processes", p.Requests,
					p.Connections, len(threads))
			}
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// shareOf returns how many of n connections thread i of all has. The last threads have one more if
// there is a remainder.
func shareOf(n, i, all int) int {
	share := n / all
	if i >= all-n%all {
		share++
	}
	return share
}

func portion(n uint64, part, whole int) uint64 {
	if part == whole {
		return n
	}
	hi, lo := bits.Mul64(n, uint64(part))
	quotient, _ := bits.Div64(hi, lo, uint64(whole))
	return quotient
}

// limitThreads returns the numbers of threads, reduced until their sum is at most most, and the
// sum. Each is at least 1.
func limitThreads(threads []int, most int) (limited []int, sum int) {
	for _, n := range threads {
		limited = append(limited, max(n, 1))
		sum += max(n, 1)
	}
	for ; sum > most; sum-- {
		limited[slices.Index(limited, slices.Max(limited))]--
	}
	return limited, sum
}
