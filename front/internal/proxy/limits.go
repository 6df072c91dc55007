package proxy

import (
	"math"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/grammar"
)

// compileLimits compiles Bind and ReadRate. The connections end with the plan.
func compileLimits(c *core.Compiler, p *proxy) {
	p.readRate, p.bind = c.Text("proxy limit_rate", p.from.ReadRate), c.Text("proxy bind", p.from.Bind)
	if p.bind.Empty() {
		return
	}
	p.binds = fetch.NewPool(nil, p.target.keepAlive(), p.upstream.IsHTTP2)
	c.Plan.Releases = append(c.Plan.Releases, p.binds.Close)
}

// limitRequest sets the local address and the rate of an upstream request. As in nginx an invalid
// address is ignored.
func (p *proxy) limitRequest(x *core.Exchange, q *fetch.Request) {
	if !p.readRate.Empty() && !p.from.Stream {
		if rate, err := grammar.ParseOffset(p.readRate.Eval(x)); err == nil {
			q.ReadRate = min(rate, math.MaxInt32)
		}
	}
	if p.binds == nil {
		return
	}
	local := p.bind.Eval(x)
	if local == "" {
		return
	}
	addr, ok := grammar.ParseAddress(local)
	if !ok {
		x.Errorf(errorlog.LevelError, "invalid local address %q", errorlog.Truncate(local))
		return
	}
	q.Local = addr
	q.Transport, _ = p.binds.Transport(fetch.Identity{Local: addr}) // without a certificate it never fails
}
