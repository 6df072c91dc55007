package proxy

import (
	"cmp"
	"net/http"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/grammar"
)

// compileConnections compiles Bind, ReadRate and ProxyTLS. The connections end with the plan.
func compileConnections(c *core.Compiler, p *proxy) {
	t, tls := &p.target, &p.from.TLS
	p.readRate, p.bind = c.Text("proxy limit_rate", p.from.ReadRate), c.Text("proxy bind", p.from.Bind)
	p.tlsName, p.tlsCert = c.Text("proxy ssl_name", tls.Name), c.Text("proxy ssl_certificate", tls.Cert)
	p.tlsKey = c.Text("proxy ssl_certificate_key", tls.Key)
	if t.bound == nil && (t.usesTLS || t.hasScheme || t.isGRPC) || !p.bind.Empty() {
		p.pool = fetch.NewPool(tls, t.keepAlive(), p.upstream.IsHTTP2)
		c.Plan.Releases = append(c.Plan.Releases, p.pool.Close)
	}
}

// chooseTransport chooses the connections of a request by TLS or with a local address. As in nginx
// an invalid address is ignored. An error is that of a certificate whose files come from variables:
// no server is to blame.
func (p *proxy) chooseTransport(x *core.Exchange, q *fetch.Request, usesTLS bool) (err error) {
	id := fetch.Identity{UsesTLS: usesTLS}
	if local := p.bind.Eval(x); local != "" {
		var ok bool
		if id.Local, ok = grammar.ParseAddress(local); !ok {
			x.Errorf(errorlog.LevelError, "invalid local address %q", errorlog.Truncate(local))
		}
	}
	if usesTLS {
		id.Name = fetch.CertificateName(cmp.Or(p.tlsName.Eval(x), p.targetName(x).host))
		id.Cert, id.Key = p.tlsCert.Eval(x), p.tlsKey.Eval(x)
	}
	if q.Local = id.Local; id == (fetch.Identity{}) {
		return nil
	}
	if q.Transport, err = p.pool.Transport(id); err != nil {
		x.Errorf(errorlog.LevelError, "certificate for upstreams: %v", err)
		return &fetch.Error{Kind: fetch.NoServer, Status: http.StatusInternalServerError, Err: err}
	}
	return nil
}
