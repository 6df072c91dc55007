package front_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
)

// traced serves a handler that responds with the context that it receives. spans receives spans.
func traced(t testing.TB, from conf.Trace, spans chan front.Span) *testClient {
	t.Helper()
	s := conf.Settings{Trace: &from, Header: []conf.AddHeader{
		{Name: "X-Vars", Value: "$otel_trace_id $otel_span_id [$otel_parent_id] $otel_parent_sampled"}}}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["Traceparent"], r.Header["Tracestate"])
	})
	return serveHandler(t, newFront(t, oneHost(app(s)), front.Bind("app", h),
		front.ExportSpans(func(s front.Span) { spans <- s })))
}

func TestTraceContextIsPassedOnOrBegun(t *testing.T) {
	const hex = `[0-9a-f]`
	client := []string{
		"Traceparent", "00-" + traceID + "-" + parentID + "-01", "Tracestate", "a=1", "Tracestate", "b=2",
	}
	for _, test := range []struct {
		name       string
		from       conf.Trace
		body, vars string
		fields     []string
	}{
		{"propagate", conf.Trace{Extract: true, Inject: true},
			`\[00-` + traceID + `-(` + hex + `{16})-01\] \[a=1,b=2\]`, traceID + ` $1 [` + parentID + `] 1`, client},
		{"inject", conf.Trace{Inject: true}, `\[00-(` + hex + `{32})-(` + hex + `{16})-00\] \[\]`, `$1 $2 [] 0`, client},
		{"begin", conf.Trace{Extract: true, Inject: true, Sampled: "on"},
			`\[00-(` + hex + `{32})-(` + hex + `{16})-01\] \[\]`, `$1 $2 [] 0`, nil},
		{"parent decides", conf.Trace{Extract: true, Inject: true, Sampled: "$otel_parent_sampled"},
			`\[00-` + traceID + `-(` + hex + `{16})-01\] \[a=1,b=2\]`, traceID + ` $1 [` + parentID + `] 1`, client},
		{"extract", conf.Trace{Extract: true}, `\[00-` + traceID + `-` + parentID + `-01\] \[a=1 b=2\]`, "", client},
	} {
		a := traced(t, test.from, make(chan front.Span, 1))
		got := a.get("/", test.fields...)
		match := regexp.MustCompile("^" + test.body + "$")
		if !match.MatchString(got.body) {
			t.Errorf("%s: the handler gets %s, want %s", test.name, got.body, test.body)
			continue
		}
		if want := match.ReplaceAllString(got.body, test.vars); test.vars != "" && got.header.Get("X-Vars") != want {
			t.Errorf("%s: %q, want %q", test.name, got.header.Get("X-Vars"), want)
		}
	}
}

// Invalid contexts are ignored: a new trace begins.
func TestInvalidTraceContextIsIgnored(t *testing.T) {
	a := traced(t, conf.Trace{Extract: true, Inject: true}, make(chan front.Span, 1))
	for _, value := range []string{
		"", "00", "00-" + traceID, "00-" + traceID + "-" + parentID, "ff-" + traceID + "-" + parentID + "-01",
		"00-" + traceID + "-" + parentID + "-01-more", "00-" + traceID + "-" + parentID + "-1",
		"00-" + traceID[1:] + "-" + parentID + "-01", "00-0AF7651916CD43DD8448EB211C80319C-" + parentID + "-01",
		"00-00000000000000000000000000000000-" + parentID + "-01", "00-" + traceID + "-0000000000000000-01",
		"00-" + traceID + "-" + parentID + "-0x",
	} {
		if got := a.get("/", "Traceparent", value).header.Get("X-Vars"); !regexp.MustCompile(
			`^[0-9a-f]{32} [0-9a-f]{16} \[\] 0$`).MatchString(got) || got[:32] == traceID {
			t.Errorf("%s: %s", value, got)
		}
	}
	got := a.get("/", "Traceparent", "cc-"+traceID+"-"+parentID+"-01-more").header.Get("X-Vars")
	testkit.Equal(t, got[:32], traceID, "a later version")
	if got := a.get("/", "Traceparent", "00-"+traceID+"-"+parentID+"-01", "Traceparent",
		"00-"+traceID+"-"+parentID+"-01").header.Get("X-Vars"); got[:32] == traceID {
		t.Errorf("two contexts: %s", got)
	}
}

// Sampled requests become spans, and others do not.
func TestSpansOfSampledRequests(t *testing.T) {
	spans := make(chan front.Span, 10)
	a := traced(t, conf.Trace{Extract: true, Sampled: "$arg_sampled", Name: "name of $uri",
		Attributes: []conf.Field{{Name: "mine", Value: "$http_x_mine"}}}, spans)
	a.get("/no")
	a.get("/no?sampled=off")
	a.get("/a?sampled=on", "Traceparent", "00-"+traceID+"-"+parentID+"-00", "X-Mine", "value")
	s := <-spans
	if s.TraceID != traceID || s.ParentID != parentID || len(s.SpanID) != 16 || s.Name != "name of /a" ||
		s.Start.IsZero() || s.End.Before(s.Start) {
		t.Errorf("%+v", s)
	}
	for _, want := range []slog.Attr{slog.String("mine", "value"), slog.String("http.request.method", "GET"),
		slog.String("url.path", "/a"), slog.String("http.response.status_code", "200"),
		slog.String("server.address", "front.test"), slog.String("http.route", "/")} {
		if !slices.ContainsFunc(s.Attributes, want.Equal) {
			t.Errorf("%v is not among %v", want, s.Attributes)
		}
	}
	if len(spans) > 0 {
		t.Errorf("another span: %+v", <-spans)
	}
}

// A mirrored request may look at the trace while the request continues in a location that injects
// it.
func TestTraceOfMirroredRequestIsNotChanged(t *testing.T) {
	copies := make(chan string, 1)
	to := serve(t, func(_ http.ResponseWriter, r *http.Request) { copies <- r.Header.Get("Traceparent") })
	other := serve(t, func(http.ResponseWriter, *http.Request) {})
	a := serveConf(t, "", fmt.Sprintf(`location / { root DIR/none; otel_trace_context extract; mirror /copy;
		error_page 404 = @other; }
		location @other { otel_trace_context propagate; proxy_pass http://%s; }
		location = /copy { internal; otel_trace_context propagate; proxy_pass http://%s; }`, other, to))
	for range 20 {
		a.get("/")
		await(t, copies)
	}
}
