package nginxconf

import (
	"net"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// trace translates the directives of nginx-otel; nil traces nothing.
func (t *translator) trace(s *scope) *conf.Trace {
	out := conf.Trace{Sampled: t.textOf(s, "otel_trace"), Name: t.textOf(s, "otel_span_name")}
	if strings.EqualFold(string(out.Sampled), "off") {
		out.Sampled = ""
	}
	switch strings.ToLower(s.word("otel_trace_context")) {
	case "extract":
		out.Extract = true
	case "inject":
		out.Inject = true
	case "propagate":
		out.Extract, out.Inject = true, true
	default:
		if out.Sampled == "" {
			return nil
		}
	}
	for _, d := range s.all("otel_span_attr") {
		out.Attributes = append(out.Attributes, conf.Field{Name: d.Args[0], Value: t.reportedText(d, d.Args[1])})
	}
	return new(out)
}

// levelExporter is the level of the directives in otel_exporter.
const levelExporter = "otel_exporter"

// noTracing is why otel_exporter is rejected without Options.Tracing.
const noTracing = "this program was built without OpenTelemetry (build it with -tags otel)"

func (t *translator) exporter(d *syntax.Directive, http *scope) {
	if !t.options.Tracing {
		t.omit(d, noTracing)
		return
	}
	s := newScope(nil, levelExporter, d.Block)
	e := &conf.SpanExporter{Service: http.word("otel_service_name"), Interval: s.time("interval"),
		BatchSize: s.number("batch_size", 0), BatchCount: s.number("batch_count", 0),
		Trusted: t.trusted(s.own("trusted_certificate"))}
	if endpoint := s.one("endpoint"); endpoint != nil {
		e.Endpoint, e.TLS = t.endpoint(endpoint)
	} else {
		t.errorf(d, "missing endpoint")
	}
	for _, f := range s.own("header") {
		e.Header = append(e.Header, conf.Field{Name: f.Args[0], Value: conf.Text(f.Args[1])})
	}
	for _, a := range http.own("otel_resource_attr") {
		e.Attributes = append(e.Attributes, conf.Field{Name: a.Args[0], Value: conf.Text(a.Args[1])})
	}
	t.process.SpanExporter = e
}

// endpoint parses HOST:PORT, with http:// or https:// before it.
func (t *translator) endpoint(d *syntax.Directive) (addr string, hasTLS bool) {
	addr = d.Args[0]
	if rest, ok := strings.CutPrefix(addr, "https://"); ok {
		addr, hasTLS = rest, true
	} else {
		addr = strings.TrimPrefix(addr, "http://")
	}
	addr = strings.TrimSuffix(addr, "/")
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
		t.errorf(d, "invalid endpoint %s (example: localhost:4317)", grammar.Quote(d.Args[0]))
	}
	return addr, hasTLS
}
