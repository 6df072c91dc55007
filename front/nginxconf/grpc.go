package nginxconf

import (
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// grpc translates the directives of gRPC, which is a proxy by HTTP/2 that buffers nothing.
func (t *translator) grpc(s *scope, p *conf.Proxy) {
	p.Version, p.Stream, p.StreamRequest, p.NoRedirects = "2", true, true, true
	p.Header = t.setFields(s, "grpc_set_header")
	t.proxyTLS(s, "grpc", p)
}

// grpcPass translates grpc_pass [SCHEME://]TO.
func (t *translator) grpcPass(d *syntax.Directive, p *conf.Proxy) {
	to, port := d.Args[0], "80"
	scheme, rest, found := strings.Cut(to, "://")
	switch lower := strings.ToLower(scheme); {
	case hasVariable(scheme): // the value has the scheme, or none
		p.Protocol = "grpc"
	case !found:
	case lower == "grpc":
		to = rest
	case lower == "grpcs":
		to, port, p.Protocol = rest, "443", "https"
	default:
		t.errorf(d, "invalid URL %s (must begin with grpc:// or grpcs://)", grammar.Quote(to))
		return
	}
	switch {
	case to == "":
		t.errorf(d, "no host in %s", grammar.Quote(d.Args[0]))
		return
	case !hasVariable(to) && !strings.HasPrefix(to, "unix:") && strings.Contains(to, "/"):
		t.errorf(d, "%s must not have a path", grammar.Quote(d.Args[0]))
		return
	}
	if p.Protocol == "" {
		p.TLS = conf.ProxyTLS{}
	}
	p.To = t.target(d, to, port)
}
