package front_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// Without such a function, net/http's server counts connections by ConnState.
func TestConnStateCountsConnections(t *testing.T) {
	h := newFront(t, oneHost(conf.Location{Path: "/status", Status: true}))
	server := serveTest(t, h, func(s *httptest.Server) { s.Config.ConnState = h.ConnState })
	for i := 1; i < 3; i++ {
		clientOf(t, server).get(server.URL+"/status").is(t, 200, fmt.Sprintf("Active connections: 1 \n"+
			"server accepts handled requests\n 1 1 %d \nReading: 0 Writing: 1 Waiting: 0 \n", i))
	}
}

func TestServersConnectionCountsAreShown(t *testing.T) {
	us := serveConf(t, "", `location /status { stub_status; } location /metrics { stub_status prometheus; } location /numbers {
		return 200 "$connections_active $connections_reading $connections_writing $connections_waiting"; }`,
		front.CountConnections(func() (accepted, open, reading int64) { return 7, 3, 1 }))
	us.get("/status").is(t, 200, "Active connections: 3 \nserver accepts handled requests\n 7 7 1 \nReading: 1 Writing: 1 Waiting: 1 \n")
	us.get("/numbers").is(t, 200, "3 1 1 1")
	wantMetrics(t, us.get("/metrics"), map[string]int{"tare_connections_accepted_total": 7, "tare_connections": 3})
}

// Connections are counted as nginx counts them: by what they do. The text is nginx's, so that its
// readers can parse it.
func TestStatusShowsWhatConnectionsDo(t *testing.T) {
	block := upgrading + "location /status { stub_status; } location /busy { error_page 503 /status; return 503; } " +
		passTo(serveTunnels(t))
	nginx, _ := serveNginx(t, "", block)
	var server *tare.Server
	h := confFront(t, "", block, nil, front.CountConnections(func() (accepted, open, reading int64) {
		accepted, open = server.Connections()
		return accepted, open, server.Reading()
	}))
	socket := filepath.Join(testkit.ShortDir(t), "s")
	server = runTare(t, testkit.Value(net.Listen("unix", socket))(t), h)
	const want = "Reading: 3 Writing: 2 Waiting: 2 \n"
	numbers, pages := regexp.MustCompile(`\d+`), []string(nil)
	for _, client := range []*testClient{nginx, newTestClient(t, socket)} {
		for _, send := range []string{"", "G", "GET / HTTP/1.1\r\nA", "\r\n",
			"GET /status HTTP/1.1\r\nHost: x\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"} {
			dial(t, "unix", client.socket, send)
		}
		testkit.WaitFor(t, want, func() bool {
			got := client.get("/status").body
			return strings.HasPrefix(got, "Active connections: 7 \n") && strings.HasSuffix(got, want)
		})
		got, rejected, ofError := client.get("/status"), client.do("POST", "/status", nil), client.do("POST", "/busy", nil)
		pages = append(pages, fmt.Sprint(got.header["Content-Type"], rejected.status, ofError.status,
			numbers.ReplaceAllString(got.body+ofError.body, "N")))
	}
	testkit.Equal(t, pages[0], pages[1])
}

// sample is a line of metrics.
var sample = regexp.MustCompile(`^([a-z_]+)(\{([a-z]+="(\\.|[^"\\])*"(,[a-z]+="(\\.|[^"\\])*")*)\})? (-?\d+(\.\d+)?)$`)

// parseMetrics parses Prometheus' text format, and rejects invalid text.
func parseMetrics(t *testing.T, text string) map[string]int {
	t.Helper()
	found, seen, family := make(map[string]int), make(map[string]bool), ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# HELP "); ok {
			family, _, _ = strings.Cut(name, " ")
			testkit.Equal(t, seen[family], false, family, "is there twice")
			seen[family] = true
			continue
		}
		if kind, ok := strings.CutPrefix(line, "# TYPE "+family+" "); ok {
			if kind != "counter" && kind != "gauge" && kind != "histogram" ||
				(kind == "counter") != strings.HasSuffix(family, "_total") {
				t.Errorf("%s is a %s", family, kind)
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil || m[1] != family && m[1] != family+"_bucket" && m[1] != family+"_sum" && m[1] != family+"_count" {
			t.Errorf("%q is no sample of %s", line, family)
			continue
		}
		_, twice := found[m[1]+m[2]]
		testkit.Equal(t, twice, false, m[1]+m[2], "is there twice")
		found[m[1]+m[2]], _ = strconv.Atoi(m[7])
	}
	return found
}

// The metrics count what happened. Labels come from the Config, never from clients, and a reload
// loses no counts.
func TestMetricsCountRequests(t *testing.T) {
	c := parseConf(t, `limit_req_zone $arg_k zone=z:1m rate=1r/m; server { listen 80; server_name ~^a\.; return 444; }`,
		`server_name front.test; location = /metrics { stub_status prometheus; }
		location / { access_log '`+filepath.Join(t.TempDir(), `a "log"`)+`'; limit_req zone=z burst=1 nodelay; proxy_pass http://app; }`, "app")
	h := newFront(t, c, front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, _ := strconv.Atoi(r.URL.Path[1:]); code != 0 {
			w.WriteHeader(code)
		}
		fmt.Fprint(w, "ok")
	})))
	us := serveHandler(t, h)
	for _, path := range []string{"/", "/200", "/404", "/500", "/502", "/?k=1", "/?k=1", "/?k=1", "/?k=1"} {
		us.do("GET", path, nil, "X-Evil", "label")
	}
	testkit.Fails(us.attempt("GET", "http://a.test/", nil))(t, "", "444")
	testkit.Must(t, h.Reload(c))
	page := us.get("/metrics")
	testkit.Equal(t, page.header.Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8")
	wantMetrics(t, page, map[string]int{
		"tare_requests_total": 11, "tare_requests_in_flight": 1,
		`tare_responses_total{host="front.test",class="2xx"}`:               4,
		`tare_responses_total{host="front.test",class="4xx"}`:               1,
		`tare_responses_total{host="front.test",class="5xx"}`:               4,
		`tare_responses_total{host="~^a\\.",class="none"}`:                  1,
		`tare_request_duration_seconds_count{host="front.test"}`:            9,
		`tare_request_duration_seconds_bucket{host="front.test",le="+Inf"}`: 9,
		`tare_limit_rejected_total{zone="z",kind="requests"}`:               2,
		`tare_limit_keys{zone="z",kind="requests"}`:                         1,
	})
	if n := strings.Count(page.body, "tare_log_lines_lost_total{"); n != 1 || strings.Contains(page.body, "vil") {
		t.Errorf("%d logs, or something of a client's:\n%s", n, page.body)
	}
}

// wantMetrics parses a page, and compares some of its samples.
func wantMetrics(t *testing.T, page response, want map[string]int) {
	t.Helper()
	found := parseMetrics(t, page.body)
	for name, n := range want {
		got, ok := found[name]
		testkit.Equal(t, got, n, name, "is there:", ok)
	}
}

// A location that shows counts enables counting, also in an if.
func TestCountersInIfAreEnabled(t *testing.T) {
	steps := []conf.Step{conf.If{Left: "1", Location: &conf.Location{Path: "/", Status: true}}}
	client := serveHandler(t, newFront(t, oneHost(conf.Location{Path: "/", Steps: steps})))
	for i := range 2 {
		testkit.Contains(t, client.get("/").body, fmt.Sprintf("requests\n %d %d %d ", i+1, i+1, i+1))
	}
}

// Responses of an upstream are counted, and attempts that have none.
func TestMetricsCountUpstreams(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/404" {
			w.WriteHeader(404)
		}
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
	})
	client := serveConf(t, "upstream u { server "+to+"; }",
		"location = /metrics { stub_status prometheus; } location / { proxy_pass http://u; }")
	for _, path := range []string{"/", "/", "/404", "/cut"} {
		client.get(path)
	}
	wantMetrics(t, client.get("/metrics"), map[string]int{
		`tare_upstream_responses_total{upstream="u",class="2xx"}`:  2,
		`tare_upstream_responses_total{upstream="u",class="4xx"}`:  1,
		`tare_upstream_responses_total{upstream="u",class="none"}`: 1,
		`tare_upstream_header_seconds_count{upstream="u"}`:         3,
	})
}

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
		testkit.Equal(t, slices.ContainsFunc(s.Attributes, want.Equal), true, want, "is among", s.Attributes)
	}
	testkit.Equal(t, len(spans), 0, "other spans")
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
		testkit.Receive(t, copies)
	}
}
