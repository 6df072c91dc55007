package front

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// traceRules is a Trace, compiled.
type traceRules struct {
	at              slot
	extract, inject bool
	sampled, name   text
	attributes      []setField
}

// traceModule takes part in traces, and reports spans: the directives with the prefix otel.
func traceModule() module {
	return module{
		compile: func(c *compiler, s *conf.Settings, at slot) (effect, error) {
			r, err := c.trace(s.Trace, at)
			if r == nil || err != nil {
				return effect{}, err
			}
			e := effect{rules: r}
			if r.inject {
				e.step = step{rewritten, "trace", r.injectContext}
			}
			if c.options.exportSpan != nil && !r.sampled.empty() {
				e.observes, e.log = true, r.export
			}
			return e, nil
		},
		variables: traceVariables,
		copyState: func(x *exchange, at slot) any {
			if t := traceOf(x, at); t != nil {
				return t
			}
			return nil
		},
	}
}

// trace compiles a Trace; nil traces nothing.
func (c *compiler) trace(from *conf.Trace, at slot) (*traceRules, error) {
	if from == nil {
		return nil, nil
	}
	r := &traceRules{at: at, extract: from.Extract, inject: from.Inject}
	var err error
	if r.sampled, err = c.text(from.Sampled); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if r.name, err = c.text(from.Name); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	for _, f := range from.Attributes {
		value, err := c.text(f.Value)
		if err != nil {
			return nil, fmt.Errorf("trace: attribute %s: %w", f.Name, err)
		}
		r.attributes = append(r.attributes, setField{f.Name, value})
	}
	if !r.sampled.empty() {
		c.use(needsStartTime)
	}
	return r, nil
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
func traceOf(x *exchange, at slot) *traceContext {
	x = x.root()
	if t, ok := x.moduleState(at).(*traceContext); ok {
		return t
	}
	rules, _ := x.moduleRules(at).(*traceRules)
	if rules == nil {
		return nil
	}
	t := new(traceContext)
	x.setModuleState(at, t) // rules.sampled may have variables of it
	if rules.extract {
		t.extract(x.r.Header)
	}
	if t.traceID == "" {
		t.traceID = randomHex(16)
	}
	t.spanID, t.isSampled = randomHex(8), t.parentSampled
	if !rules.sampled.empty() {
		s := rules.sampled.eval(x)
		t.isSampled = s == "on" || s == "1"
	}
	return t
}

// injectContext replaces the context in the request's fields.
func (r *traceRules) injectContext(x *exchange) outcome {
	if x.parent != nil { // a mirrored request may run at the same time
		return proceed
	}
	t := traceOf(x, r.at)
	if t.isInjected {
		return proceed
	}
	t.isInjected = true
	q := x.r.WithContext(x.r.Context())
	q.Header = q.Header.Clone()
	flags := "-00"
	if t.isSampled {
		flags = "-01"
	}
	q.Header["Traceparent"] = []string{"00-" + t.traceID + "-" + t.spanID + flags}
	if delete(q.Header, "Tracestate"); t.state != "" {
		q.Header["Tracestate"] = []string{t.state}
	}
	x.r = q
	return proceed
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

// isTraceHex reports whether s has n hexadecimal digits, in lower case.
func isTraceHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// traceVariables are those of nginx-otel.
func traceVariables(at slot) map[string]knownVariable {
	of := func(get func(*traceContext) string) knownVariable {
		return knownVariable{get: func(x *exchange) string {
			if t := traceOf(x, at); t != nil {
				return get(t)
			}
			return ""
		}}
	}
	return map[string]knownVariable{
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

// export gives the request's span to the exporter.
func (rules *traceRules) export(x *exchange) {
	t := traceOf(x, rules.at)
	if x.parent != nil || !t.isSampled {
		return
	}
	s := span{
		TraceID: t.traceID, SpanID: t.spanID, ParentID: t.parentID, State: t.state, Name: rules.name.eval(x),
		Start: x.startTime, End: time.Now(),
		Attributes: []slog.Attr{
			slog.String("http.request.method", x.r.Method), slog.String("url.scheme", scheme(x)),
			slog.String("url.path", x.r.URL.Path), slog.String("url.query", x.r.URL.RawQuery),
			slog.String("http.route", x.loc.path), slog.String("server.address", x.hostOrServerName()),
			slog.String("client.address", x.clientAddr()), slog.String("user_agent.original", x.r.UserAgent()),
			slog.String("network.protocol.version", strings.TrimPrefix(x.r.Proto, "HTTP/")),
			slog.String("http.response.status_code", statusVariable(x)),
			slog.String("http.response.body.size", bodyBytesSent(x)),
		},
	}
	if s.Name == "" {
		s.Name = x.loc.path
	}
	for i := range rules.attributes {
		a := &rules.attributes[i]
		s.Attributes = append(s.Attributes, slog.String(a.name, a.value.eval(x)))
	}
	x.plan.options.exportSpan(s)
}
