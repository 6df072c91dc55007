package nginxconf

import (
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// trace translates the directives of nginx-otel; nil traces nothing.
func (t *translator) trace(s *scope) *conf.Trace {
	out := &conf.Trace{Sampled: t.textOf(s, "otel_trace"), Name: t.textOf(s, "otel_span_name")}
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
		out.Attributes = append(out.Attributes, conf.Field{Name: d.args[0], Value: t.text(d, d.args[1])})
	}
	return out
}
