package observe

import (
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
)

type traceRules struct {
	at            core.Slot
	extract       bool
	sampled, name core.Text
	attributes    []core.SetField
}

// TraceModule takes part in traces, and reports spans: the directives with the prefix otel.
func TraceModule() core.Module {
	return core.Module{
		Compile:   compileTrace,
		Variables: traceVariables,
		CopyState: func(x *core.Exchange, at core.Slot) any {
			if t := traceOf(x, at); t != nil {
				return t
			}
			return nil
		},
	}
}

func compileTrace(c *core.Compiler, s *conf.Settings, at core.Slot) (e core.Effect) {
	from := s.Trace
	if from == nil {
		return e
	}
	r := &traceRules{at: at, extract: from.Extract, sampled: c.Text("otel_trace", from.Sampled),
		name: c.Text("otel_span_name", from.Name)}
	for _, f := range from.Attributes {
		r.attributes = append(r.attributes, core.SetField{Name: f.Name, Value: c.Text("otel_span_attr "+f.Name, f.Value)})
	}
	if e.Rules = r; from.Inject {
		e.Step = core.Step{Phase: core.Rewritten, Name: "trace", Run: r.injectContext}
	}
	if !r.sampled.Empty() {
		c.Use(core.NeedsStartTime)
		if c.Options.ExportSpan != nil {
			e.Log = r.export
		}
	}
	return e
}

// traceContext is the trace of a request (W3C Trace Context). IDs are in hexadecimal.
type traceContext struct {
	traceID, spanID string
	parentID        string // "" begins a trace
	parentSampled   bool
	state           string // tracestate of the parent
	isSampled       bool
	isInjected      bool
}

// traceOf returns the context of the request; nil if its location traces nothing.
func traceOf(x *core.Exchange, at core.Slot) *traceContext {
	x = x.Root()
	if t, ok := x.ModuleState(at).(*traceContext); ok {
		return t
	}
	rules, _ := x.ModuleRules(at).(*traceRules)
	if rules == nil {
		return nil
	}
	t := new(traceContext)
	x.SetModuleState(at, t) // rules.sampled may have variables of it
	if rules.extract {
		t.extract(x.Request.Header)
	}
	if t.traceID == "" {
		t.traceID = core.RandomHex(16)
	}
	t.spanID, t.isSampled = core.RandomHex(8), t.parentSampled
	if !rules.sampled.Empty() {
		s := rules.sampled.Eval(x)
		t.isSampled = s == "on" || s == "1"
	}
	return t
}

// injectContext replaces the context in the request's fields.
func (r *traceRules) injectContext(x *core.Exchange) core.Outcome {
	if x.Parent != nil { // a mirrored request may run at the same time
		return core.Proceed
	}
	t := traceOf(x, r.at)
	if t.isInjected {
		return core.Proceed
	}
	t.isInjected = true
	q := x.Request.WithContext(x.Request.Context())
	q.Header = q.Header.Clone()
	flags := "-00"
	if t.isSampled {
		flags = "-01"
	}
	q.Header["Traceparent"] = []string{"00-" + t.traceID + "-" + t.spanID + flags}
	if delete(q.Header, "Tracestate"); t.state != "" {
		q.Header["Tracestate"] = []string{t.state}
	}
	x.Request = q
	return core.Proceed
}

// extract parses the context in fields. Invalid ones are ignored.
func (t *traceContext) extract(header http.Header) {
	const sampled = 1
	values := header["Traceparent"]
	if len(values) != 1 {
		return
	}
	version, rest, _ := strings.Cut(values[0], "-")
	traceID, rest, _ := strings.Cut(rest, "-")
	parentID, rest, _ := strings.Cut(rest, "-")
	flags, _, hasMore := strings.Cut(rest, "-")
	if !isTraceHex(version, 2) || !isTraceHex(traceID, 32) || !isTraceHex(parentID, 16) || !isTraceHex(flags, 2) ||
		version == "ff" || version == "00" && hasMore || strings.Trim(traceID, "0") == "" ||
		strings.Trim(parentID, "0") == "" {
		return
	}
	bits, _ := hex.DecodeString(flags)
	t.traceID, t.parentID, t.parentSampled = traceID, parentID, bits[0]&sampled != 0
	t.state = strings.Join(header["Tracestate"], ",")
}

func isTraceHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// traceVariables are those of nginx-otel.
func traceVariables(at core.Slot) map[string]core.KnownVariable {
	of := func(get func(*traceContext) string) core.KnownVariable {
		return core.KnownVariable{Get: func(x *core.Exchange) string {
			if t := traceOf(x, at); t != nil {
				return get(t)
			}
			return ""
		}}
	}
	return map[string]core.KnownVariable{
		"otel_trace_id":  of(func(t *traceContext) string { return t.traceID }),
		"otel_span_id":   of(func(t *traceContext) string { return t.spanID }),
		"otel_parent_id": of(func(t *traceContext) string { return t.parentID }),
		"otel_parent_sampled": of(func(t *traceContext) string {
			if t.parentSampled {
				return "1"
			}
			return "0"
		}),
	}
}

func (rules *traceRules) export(x *core.Exchange) {
	t := traceOf(x, rules.at)
	if x.Parent != nil || !t.isSampled {
		return
	}
	s := core.Span{
		TraceID: t.traceID, SpanID: t.spanID, ParentID: t.parentID, State: t.state, Name: rules.name.Eval(x),
		Start: x.StartTime, End: time.Now(),
		Attributes: []slog.Attr{
			slog.String("http.request.method", x.Request.Method), slog.String("url.scheme", core.Scheme(x)),
			slog.String("url.path", x.Request.URL.Path), slog.String("url.query", x.Request.URL.RawQuery),
			slog.String("http.route", x.Loc.Path), slog.String("server.address", x.HostOrServerName()),
			slog.String("client.address", x.ClientAddr()), slog.String("user_agent.original", x.Request.UserAgent()),
			slog.String("network.protocol.version", strings.TrimPrefix(x.Request.Proto, "HTTP/")),
			slog.String("http.response.status_code", core.StatusVariable(x)),
			slog.String("http.response.body.size", core.BodyBytesSent(x)),
		},
	}
	if s.Name == "" {
		s.Name = x.Loc.Path
	}
	for i := range rules.attributes {
		a := &rules.attributes[i]
		s.Attributes = append(s.Attributes, slog.String(a.Name, a.Value.Eval(x)))
	}
	x.Plan.Options.ExportSpan(s)
}
