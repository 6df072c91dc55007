package guard

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/exposition"
	"github.com/tarehq/tare/front/internal/limit"
	"github.com/tarehq/tare/front/internal/nginxstatus"
)

// maxLimitKey bounds the length of a key, as in nginx. Requests with longer keys are not limited.
const maxLimitKey = 65535

// LimitsModule limits requests and connections by keys: limit_req, limit_conn, and the directives
// with those prefixes.
func LimitsModule() core.Module {
	return core.Module{
		Compile: compileLimits,
		Variables: func(at core.Slot) map[string]core.KnownVariable {
			return map[string]core.KnownVariable{
				"limit_req_status":  {Get: func(x *core.Exchange) string { return resultsOf(x, at).requests }},
				"limit_conn_status": {Get: func(x *core.Exchange) string { return resultsOf(x, at).conns }},
			}
		},
		CopyState: func(x *core.Exchange, at core.Slot) any {
			results := resultsOf(x, at)
			return &results
		},
	}
}

// limitResults are $limit_req_status and $limit_conn_status of a request. They are empty before the
// limits apply.
type limitResults struct{ requests, conns string }

const (
	limitPassed   = "PASSED"
	limitDelayed  = "DELAYED"
	limitRejected = "REJECTED"
	limitDryRun   = "_DRY_RUN" // at the end of the last two
)

// resultsOf returns the results for a request, which its subrequests share.
func resultsOf(x *core.Exchange, at core.Slot) limitResults {
	if found, ok := x.Root().ModuleState(at).(*limitResults); ok {
		return *found
	}
	return limitResults{}
}

type limits struct {
	at       core.Slot // of limitResults
	requests []requestLimit
	conns    []connLimit

	requestLevel, connLevel errorlog.Level // of rejected requests
}

type requestLimit struct {
	zone           limitZone[*limit.Rate]
	burst, noDelay int64 // in thousandths of a request; up to noDelay is not delayed
}

type connLimit struct {
	zone limitZone[*limit.Conns]
	max  int
}

type limitZone[T any] struct {
	name   string
	table  T
	key    core.Text
	counts *limitCounts
}

func compileLimits(c *core.Compiler, s *conf.Settings, at core.Slot) (e core.Effect) {
	l := &limits{at: at}
	for _, status := range []int{s.RequestStatus, s.ConnStatus} {
		if status != 0 && (status < 400 || status > 599) {
			c.Failf("limits: invalid status %d: want 400 to 599", status)
		}
	}
	var err error
	l.requestLevel, err = errorlog.ParseLevel(s.RequestLogLevel)
	c.Check("limit_req_log_level", err)
	l.connLevel, err = errorlog.ParseLevel(s.ConnLogLevel)
	c.Check("limit_conn_log_level", err)
	for _, r := range s.Requests {
		l.requests = append(l.requests, compileRequestLimit(c, r))
	}
	for _, n := range s.Conns {
		l.conns = append(l.conns, compileConnLimit(c, n))
	}
	if l.requests != nil || l.conns != nil {
		e = core.Effect{Rules: l, Step: core.Step{Phase: core.LimitPhase, Name: "limits", Run: l.check}}
	}
	return e
}

func compileRequestLimit(c *core.Compiler, r conf.RequestLimit) (l requestLimit) {
	const most = 1 << 40 // more would be no limit
	if r.Burst < 0 || r.Delay < 0 || int64(r.Burst) > most || int64(r.Delay) > most {
		c.Failf("limit_req: invalid burst or delay: want a number of requests")
	}
	l.burst, l.noDelay = int64(r.Burst)*limit.Unit, int64(r.Delay)*limit.Unit
	if r.NoDelay {
		l.noDelay = l.burst
	}
	l.zone = compileZone(c, "limit_req", "requests", c.Config.Requests, r.Zone, limit.NewRate)
	return l
}

func compileConnLimit(c *core.Compiler, n conf.ConnLimit) connLimit {
	if n.Max <= 0 {
		c.Failf("limit_conn: invalid maximum %d: want 1 or more", n.Max)
	}
	return connLimit{max: n.Max, zone: compileZone(c, "limit_conn", "conns", c.Config.Conns, n.Zone,
		func(z conf.Zone) (*limit.Conns, error) { return limit.NewConns(z), nil })}
}

// compileZone compiles the Zone with a name. Reloads keep a table as long as its Zone is the same.
func compileZone[T interface{ Len() int }](c *core.Compiler, directive, kind string, all []conf.Zone, name string,
	create func(conf.Zone) (T, error)) (z limitZone[T]) {
	at := slices.IndexFunc(all, func(z conf.Zone) bool { return z.Name == name })
	if at < 0 {
		c.Failf("%s: unknown zone %q", directive, name)
	}
	var err error
	z.key = c.Text("zone "+name, all[at].Key)
	z.table, err = core.AcquireForPlan(c, &c.State.Zones, fmt.Sprintf("%s %+v", kind, all[at]),
		func() (T, error) { return create(all[at]) }, func(T) {})
	c.Check(directive, err)
	z.name, z.counts = name, compileLimitCounts(c, kind, name, z.table)
	return z
}

// check is the limit phase. After an internal redirect it counts nothing again.
func (l *limits) check(x *core.Exchange) core.Outcome {
	root := x.Root()
	results, ok := root.ModuleState(l.at).(*limitResults)
	if !ok {
		results = new(limitResults)
		root.SetModuleState(l.at, results)
	}
	if len(l.requests) > 0 && results.requests == "" {
		if out := l.countRequest(x, &results.requests); out != core.Proceed {
			return out
		}
	}
	if len(l.conns) > 0 && results.conns == "" {
		return l.countConn(x, &results.conns)
	}
	return core.Proceed
}

// countRequest counts the request in all zones unless one of them is full. It waits as long as the
// slowest zone requires.
func (l *limits) countRequest(x *core.Exchange, result *string) core.Outcome {
	now := time.Now()
	var slowest delayedBy
	consider := func(r *requestLimit, excess int64) {
		if d := r.zone.table.Delay(excess, r.noDelay); d > slowest.delay {
			slowest = delayedBy{r, excess, d}
		}
	}
	var keys [8]string // avoids an allocation for up to 8 limits
	all := keys[:0]
	for i := range l.requests {
		r := &l.requests[i]
		key := r.zone.keyOf(x)
		all = append(all, key)
		if key == "" {
			continue
		}
		*result = limitPassed
		excess, ok := int64(0), false
		if i == len(l.requests)-1 {
			excess, ok = r.zone.table.Acquire(key, r.burst, now)
		} else if excess = r.zone.table.Check(key, now); excess <= r.burst {
			ok = true
		}
		if !ok {
			return l.rejectRequest(x, r, excess, result)
		}
		if i == len(l.requests)-1 {
			consider(r, excess)
		}
	}
	for i := range len(l.requests) - 1 { // no zone is full
		if r := &l.requests[i]; all[i] != "" {
			excess, _ := r.zone.table.Acquire(all[i], 1<<62, now)
			consider(r, excess)
		}
	}
	if slowest.delay == 0 {
		return core.Proceed
	}
	return l.delayRequest(x, slowest, result)
}

// delayedBy is a limit that delays a request.
type delayedBy struct {
	limit  *requestLimit
	excess int64 // in thousandths of a request
	delay  time.Duration
}

// keyOf returns the key of the request in the zone, "" if it is not limited.
func (z *limitZone[T]) keyOf(x *core.Exchange) string {
	s := z.key.Eval(x)
	if len(s) > maxLimitKey {
		x.Errorf(errorlog.LevelError, "the value of the key of the zone %q is too long: %d bytes", z.name, len(s))
		return ""
	}
	return s
}

func (l *limits) rejectRequest(x *core.Exchange, r *requestLimit, excess int64, result *string) core.Outcome {
	r.zone.counts.rejected.Add(1)
	dry := ""
	if *result = limitRejected; x.Loc.Settings.RequestDryRun {
		*result, dry = limitRejected+limitDryRun, ", dry run"
	}
	x.Errorf(l.requestLevel, "limiting requests%s, excess: %d.%03d by zone %q", dry, excess/limit.Unit,
		excess%limit.Unit, r.zone.name)
	if x.Loc.Settings.RequestDryRun {
		return core.Proceed
	}
	return x.Fail(cmp.Or(x.Loc.Settings.RequestStatus, http.StatusServiceUnavailable))
}

// delayRequest delays a request until its time, or until its client leaves.
func (l *limits) delayRequest(x *core.Exchange, by delayedBy, result *string) core.Outcome {
	by.limit.zone.counts.delayed.Add(1)
	dry := ""
	if *result = limitDelayed; x.Loc.Settings.RequestDryRun {
		*result, dry = limitDelayed+limitDryRun, ", dry run"
	}
	x.Errorf(max(l.requestLevel-1, errorlog.LevelInfo), "delaying request%s, excess: %d.%03d, by zone %q", dry,
		by.excess/limit.Unit, by.excess%limit.Unit, by.limit.zone.name)
	if x.Loc.Settings.RequestDryRun {
		return core.Proceed
	}
	if !x.Wait(by.delay) {
		return x.EndWithoutResponse(nginxstatus.ClientGone)
	}
	return core.Proceed
}

// countConn counts the request in all zones until it ends, unless one of them is full.
func (l *limits) countConn(x *core.Exchange, result *string) core.Outcome {
	for i := range l.conns {
		n := &l.conns[i]
		key := n.zone.keyOf(x)
		if key == "" {
			continue
		}
		*result = limitPassed
		if n.zone.table.Enter(key, n.max) {
			x.Hold(func() { n.zone.table.Leave(key) })
			continue
		}
		n.zone.counts.rejected.Add(1)
		x.Release()
		if x.Loc.Settings.ConnDryRun {
			*result = limitRejected + limitDryRun
			x.Errorf(l.connLevel, "limiting connections, dry run, by zone %q", n.zone.name)
			return core.Proceed
		}
		*result = limitRejected
		x.Errorf(l.connLevel, "limiting connections by zone %q", n.zone.name)
		return x.Fail(cmp.Or(x.Loc.Settings.ConnStatus, http.StatusServiceUnavailable))
	}
	return core.Proceed
}

type limitCounts struct{ rejected, delayed atomic.Int64 }

// compileLimitCounts returns the counts of a zone, and registers their metrics.
func compileLimitCounts(c *core.Compiler, kind, name string, zone interface{ Len() int }) *limitCounts {
	return core.SharedCounts(c, kind+" "+name, func(n *limitCounts, e *exposition.Page) {
		e.Add("tare_limit_rejected_total", exposition.Counter, "Requests that a limit rejected.",
			n.rejected.Load(), "zone", name, "kind", kind)
		e.Add("tare_limit_delayed_total", exposition.Counter, "Requests that a limit delayed.",
			n.delayed.Load(), "zone", name, "kind", kind)
		e.Add("tare_limit_keys", exposition.Gauge, "Keys in a zone.", int64(zone.Len()), "zone", name, "kind", kind)
	})
}
