package upstream

import (
	"errors"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// timeShare is the share of a new measurement in an average of response times: one in timeShare.
const timeShare = 8

// maxTimeAge is how long an average counts without a new measurement. After that the server is
// tried again: it may have become faster.
const maxTimeAge = 10 * time.Second

// timeKind is what a response time is measured to.
type timeKind int

const (
	headTime  timeKind = iota // the head of the response
	totalTime                 // its last byte
	timeKinds
)

// responseTimes are the moving averages of a server's response times; 0 is unknown. Failed attempts
// do not count: they may be fast.
type responseTimes struct {
	averages [timeKinds]time.Duration
	measured time.Time // the last measurement
}

func (r *responseTimes) add(kind timeKind, d time.Duration, now time.Time) {
	r.measured = now
	if d = max(d, 1); r.averages[kind] == 0 {
		r.averages[kind] = d
		return
	}
	r.averages[kind] += (d - r.averages[kind]) / timeShare
}

// average returns an average, 0 if none is known.
func (r *responseTimes) average(kind timeKind, now time.Time) time.Duration {
	if now.Sub(r.measured) > maxTimeAge {
		return 0
	}
	return r.averages[kind]
}

// leastTimeMethod is least_time header|last_byte [inflight]: the server with the least product of
// average response time and connections, for its weight. With inflight, the requests in progress
// count as responses that end now, if that makes the average longer.
func leastTimeMethod() method {
	return method{usesTimes: true, slowStarts: true, make: func(args []string, _ []conf.Server) (balancer, error) {
		if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1] != "inflight" {
			return nil, errors.New("want header or last_byte, and perhaps inflight")
		}
		kind := headTime
		switch args[0] {
		case "header":
		case "last_byte":
			kind = totalTime
		default:
			return nil, errors.New("want header or last_byte, and perhaps inflight")
		}
		inFlight := len(args) == 2
		return func(t *Turn) int { return leastTime(t.list.peers, t.list.times(kind, inFlight, t.now)) }, nil
	}}
}

// leastTime chooses the peer with the least cost, and among equals by smooth.
func leastTime(peers []peer, times []time.Duration) int {
	cost := func(i int) float64 {
		return float64(times[i]) * float64(peers[i].conns+1) / float64(peers[i].weight)
	}
	least := -1
	for i := range peers {
		if !peers[i].out && (least < 0 || cost(i) < cost(least)) {
			least = i
		}
	}
	if least < 0 {
		return -1
	}
	most := cost(least)
	return smoothAmong(peers, func(i int) bool { return cost(i) == most })
}

// times returns the average response times of peers. A server without one counts as the fastest, so
// that it is tried, but not as infinitely fast: it must not get all requests until it responds.
func (l *list) times(kind timeKind, inFlight bool, now time.Time) []time.Duration {
	times, fastest := make([]time.Duration, len(l.members)), time.Duration(0)
	for i := range l.members {
		h := l.members[i].health
		times[i] = h.times.average(kind, now)
		if inFlight {
			times[i] = max(times[i], h.meanAge(now))
		}
		if times[i] > 0 && (fastest == 0 || times[i] < fastest) {
			fastest = times[i]
		}
	}
	for i := range times {
		if times[i] == 0 {
			times[i] = max(fastest, 1)
		}
	}
	return times
}

// isFaster reports whether a is better than b.
func (l *list) isFaster(a, b int, kind timeKind, now time.Time) bool {
	times := l.times(kind, false, now)
	cost := func(i int) float64 { return float64(times[i]) * float64(l.peers[i].conns+1) }
	return cost(a)*float64(l.peers[b].weight) < cost(b)*float64(l.peers[a].weight)
}
