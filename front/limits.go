package front

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/limit"
)

const (
	// maxLimitKey bounds the length of a key, as in nginx. Requests with longer keys are not
	// limited.
	maxLimitKey = 65535
)

// limitsModule limits requests and connections by keys: limit_req, limit_conn, and the directives
// with those prefixes.
func limitsModule() module {
	return module{
		compile: func(c *compiler, s *conf.Settings, _ slot) (effect, error) {
			l, err := c.limits(s)
			if err != nil || l.requests == nil && l.conns == nil {
				return effect{}, err
			}
			return effect{rules: &l, step: step{limitPhase, "limits", l.check}}, nil
		},
		variables: func(slot) map[string]knownVariable {
			return map[string]knownVariable{
				"limit_req_status":  {get: func(x *exchange) string { return x.requestLimit.String() }},
				"limit_conn_status": {get: func(x *exchange) string { return x.connLimit.String() }},
			}
		},
	}
}

// limits are the limits of a location.
type limits struct {
	requests []requestLimit
	conns    []connLimit

	requestStatus, connStatus int
	requestLevel, connLevel   level // of rejected requests
	requestDryRun, connDryRun bool
}

// requestLimit is a RequestLimit, compiled.
type requestLimit struct {
	name           string
	zone           *limit.Rate
	key            text
	burst, noDelay int64 // in thousandths of a request; up to noDelay is not delayed
	counts         *limitCounts
}

// connLimit is a ConnLimit, compiled.
type connLimit struct {
	name   string
	zone   *limit.Conns
	key    text
	max    int
	counts *limitCounts
}

// limits compiles the limits of a location.
func (c *compiler) limits(s *conf.Settings) (limits, error) {
	l := limits{
		requestStatus: s.RequestStatus, connStatus: s.ConnStatus, requestDryRun: s.RequestDryRun, connDryRun: s.ConnDryRun,
	}
	for _, status := range []*int{&l.requestStatus, &l.connStatus} {
		if *status == 0 {
			*status = http.StatusServiceUnavailable
		}
		if *status < 400 || *status > 599 {
			return l, fmt.Errorf("limits: invalid status %d: want 400 to 599", *status)
		}
	}
	var err error
	if l.requestLevel, err = parseLevel(s.RequestLogLevel); err != nil {
		return l, fmt.Errorf("limit_req_log_level: %w", err)
	}
	if l.connLevel, err = parseLevel(s.ConnLogLevel); err != nil {
		return l, fmt.Errorf("limit_conn_log_level: %w", err)
	}
	for _, r := range s.Requests {
		compiled, err := c.requestLimit(r)
		if err != nil {
			return l, fmt.Errorf("limit_req: %w", err)
		}
		l.requests = append(l.requests, compiled)
	}
	for _, n := range s.Conns {
		compiled, err := c.connLimit(n)
		if err != nil {
			return l, fmt.Errorf("limit_conn: %w", err)
		}
		l.conns = append(l.conns, compiled)
	}
	return l, nil
}

func (c *compiler) requestLimit(r conf.RequestLimit) (l requestLimit, err error) {
	const most = 1 << 40 // more would be no limit
	if r.Burst < 0 || r.Delay < 0 || int64(r.Burst) > most || int64(r.Delay) > most {
		return l, errors.New("invalid burst or delay: want a number of requests")
	}
	config, err := zoneConfig(c.config.Requests, r.Zone)
	if err != nil {
		return l, err
	}
	l.name, l.burst, l.noDelay = r.Zone, int64(r.Burst)*limit.Unit, int64(r.Delay)*limit.Unit
	if r.NoDelay {
		l.noDelay = l.burst
	}
	if l.key, err = c.text(config.Key); err != nil {
		return l, err
	}
	zone, release, err := acquire(&c.state.zones, fmt.Sprintf("requests %+v", config), func() (*limit.Rate, error) {
		return limit.NewRate(config)
	}, func(*limit.Rate) {})
	if err != nil {
		return l, err
	}
	c.plan.releases = append(c.plan.releases, release)
	l.zone, l.counts = zone, c.limitCounts("requests", r.Zone, zone)
	return l, nil
}

func (c *compiler) connLimit(n conf.ConnLimit) (l connLimit, err error) {
	if n.Max <= 0 {
		return l, fmt.Errorf("invalid maximum %d: want 1 or more", n.Max)
	}
	config, err := zoneConfig(c.config.Conns, n.Zone)
	if err != nil {
		return l, err
	}
	l.name, l.max = n.Zone, n.Max
	if l.key, err = c.text(config.Key); err != nil {
		return l, err
	}
	zone, release, err := acquire(&c.state.zones, fmt.Sprintf("conns %+v", config), func() (*limit.Conns, error) {
		return limit.NewConns(config), nil
	}, func(*limit.Conns) {})
	if err != nil {
		return l, err
	}
	c.plan.releases = append(c.plan.releases, release)
	l.zone, l.counts = zone, c.limitCounts("conns", n.Zone, zone)
	return l, nil
}

func zoneConfig(all []conf.Zone, name string) (conf.Zone, error) {
	for _, z := range all {
		if z.Name == name {
			return z, nil
		}
	}
	return conf.Zone{}, fmt.Errorf("unknown zone %q", name)
}

// check is the limit phase. After an internal redirect it counts nothing again.
func (l *limits) check(x *exchange) outcome {
	if len(l.requests) > 0 && x.requestLimit == limitNone {
		if out := l.countRequest(x); out != proceed {
			return out
		}
	}
	if len(l.conns) > 0 && x.connLimit == limitNone {
		return l.countConn(x)
	}
	return proceed
}

// countRequest counts the request in all zones unless one of them is full. It waits as long as the
// slowest zone requires.
func (l *limits) countRequest(x *exchange) outcome {
	now := time.Now()
	var slowest delayedBy
	consider := func(r *requestLimit, excess int64) {
		if d := r.zone.Delay(excess, r.noDelay); d > slowest.delay {
			slowest = delayedBy{r, excess, d}
		}
	}
	var keys [8]string // avoids an allocation for up to 8 limits
	all := keys[:0]
	for i := range l.requests {
		r := &l.requests[i]
		key := limitKey(x, &r.key, r.name)
		all = append(all, key)
		if key == "" {
			continue
		}
		x.requestLimit = limitPassed
		excess, ok := int64(0), false
		if i == len(l.requests)-1 {
			excess, ok = r.zone.Acquire(key, r.burst, now)
		} else if excess = r.zone.Check(key, now); excess <= r.burst {
			ok = true
		}
		if !ok {
			return l.rejectRequest(x, r, excess)
		}
		if i == len(l.requests)-1 {
			consider(r, excess)
		}
	}
	for i := range len(l.requests) - 1 { // no zone is full
		if r := &l.requests[i]; all[i] != "" {
			excess, _ := r.zone.Acquire(all[i], 1<<62, now)
			consider(r, excess)
		}
	}
	if slowest.delay == 0 {
		return proceed
	}
	return l.delayRequest(x, slowest)
}

// delayedBy is a limit that delays a request.
type delayedBy struct {
	limit  *requestLimit
	excess int64 // in thousandths of a request
	delay  time.Duration
}

// limitKey returns the key of the request in a zone, "" if it is not limited.
func limitKey(x *exchange, key *text, zone string) string {
	s := key.eval(x)
	if len(s) > maxLimitKey {
		x.errorf(levelError, "the value of the key of the zone %q is too long: %d bytes", zone, len(s))
		return ""
	}
	return s
}

func (l *limits) rejectRequest(x *exchange, r *requestLimit, excess int64) outcome {
	r.counts.rejected.Add(1)
	dry := ""
	if x.requestLimit = limitRejected; l.requestDryRun {
		x.requestLimit, dry = limitRejectedDry, ", dry run"
	}
	x.errorf(l.requestLevel, "limiting requests%s, excess: %d.%03d by zone %q", dry, excess/limit.Unit,
		excess%limit.Unit, r.name)
	if l.requestDryRun {
		return proceed
	}
	return x.fail(l.requestStatus)
}

// delayRequest delays a request until its time, or until its client leaves.
func (l *limits) delayRequest(x *exchange, by delayedBy) outcome {
	by.limit.counts.delayed.Add(1)
	dry := ""
	if x.requestLimit = limitDelayed; l.requestDryRun {
		x.requestLimit, dry = limitDelayedDry, ", dry run"
	}
	x.errorf(max(l.requestLevel-1, levelInfo), "delaying request%s, excess: %d.%03d, by zone %q", dry,
		by.excess/limit.Unit, by.excess%limit.Unit, by.limit.name)
	if l.requestDryRun {
		return proceed
	}
	if !x.wait(by.delay) {
		return x.endWithoutResponse(statusClientGone)
	}
	return proceed
}

// countConn counts the request in all zones until it ends, unless one of them is full.
func (l *limits) countConn(x *exchange) outcome {
	for i := range l.conns {
		n := &l.conns[i]
		key := limitKey(x, &n.key, n.name)
		if key == "" {
			continue
		}
		x.connLimit = limitPassed
		if n.zone.Enter(key, n.max) {
			x.limitReleases = append(x.limitReleases, func() { n.zone.Leave(key) })
			continue
		}
		n.counts.rejected.Add(1)
		x.releaseLimits()
		if l.connDryRun {
			x.connLimit = limitRejectedDry
			x.errorf(l.connLevel, "limiting connections, dry run, by zone %q", n.name)
			return proceed
		}
		x.connLimit = limitRejected
		x.errorf(l.connLevel, "limiting connections by zone %q", n.name)
		return x.fail(l.connStatus)
	}
	return proceed
}

// limitCounts are the numbers of a zone.
type limitCounts struct{ rejected, delayed atomic.Int64 }

// limitCountsKey identifies the counts of a zone.
type limitCountsKey struct{ kind, name string }

// limitCounts returns the counts of a zone, and registers their metrics.
func (c *compiler) limitCounts(kind, name string, zone interface{ Len() int }) *limitCounts {
	n, _ := shared(c, limitCountsKey{kind, name}, func() (*limitCounts, error) {
		n := sharedCounts[limitCounts](c, kind+" "+name)
		c.plan.measures = append(c.plan.measures, func(e *exposition) {
			e.add("tare_limit_rejected_total", counter, "Requests that a limit rejected.", n.rejected.Load(), "zone",
				name, "kind", kind)
			e.add("tare_limit_delayed_total", counter, "Requests that a limit delayed.", n.delayed.Load(), "zone", name,
				"kind", kind)
			e.add("tare_limit_keys", gauge, "Keys in a zone.", int64(zone.Len()), "zone", name, "kind", kind)
		})
		return n, nil
	})
	return n
}
