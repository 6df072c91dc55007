package load_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// observer is a server that records its requests and their connections.
type observer struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string]int // "METHOD target body"
	peers    map[string]int // requests, by the client's address
	headers  http.Header    // of the last one
	opened   atomic.Int64
}

// observe starts an observer after the caller has configured it.
func observe(t *testing.T, start func(*httptest.Server), also http.HandlerFunc) *observer {
	t.Helper()
	o := &observer{requests: make(map[string]int), peers: make(map[string]int)}
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		testkit.Check(t, err)
		o.mu.Lock()
		o.requests[fmt.Sprintf("%s %s %.40s", r.Method, r.URL.RequestURI(), body)]++
		o.peers[r.RemoteAddr]++
		o.headers = r.Header
		o.mu.Unlock()
		if also != nil {
			also(w, r)
		}
	}))
	o.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			o.opened.Add(1)
		}
	}
	o.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(o.Server)
	t.Cleanup(o.Close)
	return o
}

func plainly(s *httptest.Server) { s.Start() }

// total returns the number of requests.
func (o *observer) total() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.requests {
		n += k
	}
	return n
}

// mode is a kind of HTTP plan, with the start of its server.
type mode struct {
	start func(*httptest.Server)
	plan  func(*load.Plan)
}

func modes() map[string]mode {
	insecure := &tls.Config{InsecureSkipVerify: true}
	http2 := func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	}
	return map[string]mode{
		"plain":           {plainly, func(*load.Plan) {}},
		"TLS":             {(*httptest.Server).StartTLS, func(p *load.Plan) { p.TLS = insecure }},
		"HTTP/2 over TLS": {http2, func(p *load.Plan) { p.TLS, p.Version = insecure, load.HTTP2 }},
		"HTTP/2": {func(s *httptest.Server) {
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
		}, func(p *load.Plan) { p.Version = load.HTTP2 }},
		"pipelined": {plainly, func(p *load.Plan) { p.Pipeline = 4 }},
		"HTTP/2, four streams": {http2, func(p *load.Plan) {
			p.TLS, p.Version, p.Pipeline = insecure, load.HTTP2, 4
		}},
		"one request on a connection": {plainly, func(p *load.Plan) { p.PerConnection = 1 }},
		"three requests on a TLS connection": {(*httptest.Server).StartTLS, func(p *load.Plan) {
			p.TLS, p.PerConnection = insecure, 3
		}},
		"HTTP/1.0": {plainly, func(p *load.Plan) { p.Version = load.HTTP10 }},
		"HTTP/1.0, kept": {plainly, func(p *load.Plan) {
			p.Version, p.Header = load.HTTP10, []string{"Connection: Keep-Alive"}
		}},
		"open loop": {plainly, func(p *load.Plan) { p.Pace = load.Constant(2000) }},
		"HTTP/2 in an open loop": {http2, func(p *load.Plan) {
			p.TLS, p.Version, p.Pipeline, p.Pace = insecure, load.HTTP2, 3, load.Constant(2000)
		}},
		"thinking": {plainly, func(p *load.Plan) { p.Think = time.Millisecond }},
	}
}

// A run with a number of Requests sends exactly that many, in every mode, and each has a response.
func TestExactlyTheNumberOfRequestsIsSent(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 403
			o := observe(t, mode.start, nil)
			p := load.Plan{URL: o.URL + "/a?b", Connections: 7, Threads: 2, Requests: n, Samples: n + 1,
				Timeout: 20 * time.Second}
			mode.plan(&p)
			r := run(t, p)
			if r.Requests != n || o.total() != n || r.Statuses[200] != n || r.Errors.Total() != 0 ||
				o.requests["GET /a?b "] != n {
				t.Fatalf("%d requests, %d arrived, statuses %v, errors %+v", r.Requests, o.total(), r.Statuses,
					r.Errors)
			}
			made := r.Opened + r.Connects
			// The server accepts a connection after the client has opened it.
			testkit.WaitFor(t, "connections", func() bool { return o.opened.Load() >= int64(made) })
			// Some connections may still be opening when the last response arrives.
			if o.opened.Load() > int64(made)+7 || r.Connect.Count() < int64(made) ||
				(r.Handshake != nil) != (p.TLS != nil) {
				t.Errorf("%d connections were made, the server saw %d; %d times of connecting", made, o.opened.Load(),
					r.Connect.Count())
			}
			if p.PerConnection > 0 && made < n/uint64(p.PerConnection) || p.PerConnection == 0 && p.Header == nil &&
				(made > 7) != (p.Version == load.HTTP10) {
				t.Errorf("%d connections were made", made)
			}
			checkSamples(t, r, int(n))
			var sum, windows uint64
			for _, s := range r.Timeline {
				sum += s.Requests
				testkit.Equal(t, s.Latency.Count, int64(s.Requests), "latencies of a second")
			}
			for _, thread := range r.Windows {
				for _, count := range thread {
					windows += uint64(count)
				}
			}
			if sum != n || windows != n || len(r.Windows) != 2 {
				t.Errorf("%d requests in the timeline, %d in %d threads' windows", sum, windows, len(r.Windows))
			}
		})
	}
}

func checkSamples(t *testing.T, r *load.Result, n int) {
	t.Helper()
	testkit.Equal(t, len(r.Samples), n, "samples")
	connected, last := 0, time.Duration(0)
	for _, s := range r.Samples {
		if s.Connect > 0 {
			connected++
		}
		if s.Due > s.Sent || s.Sent > s.First || s.First > s.Done || s.Done < last || s.Status != 200 ||
			s.Failure != load.NoFailure || s.Bytes == 0 {
			t.Fatalf("sample %+v after one that ended at %v", s, last)
		}
		last = s.Done
	}
	if made := int(r.Opened + r.Connects); connected > made || connected == 0 {
		t.Errorf("%d samples had their connection made for them, of %d connections", connected, made)
	}
}

// Bodies larger than any buffer and window are transferred completely in both directions, in every
// mode.
func TestBodiesAreTransferredAndChecked(t *testing.T) {
	const bodies = 4
	body := strings.Repeat("0123456789abcdef", 8_000)
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := observe(t, mode.start, func(w http.ResponseWriter, r *http.Request) {
				testkit.Equal(t, r.ContentLength, int64(len(body)), "announced")
				w.Header().Set("X-Kind", "large")
				io.WriteString(w, body)
				w.Header().Set(http.TrailerPrefix+"Grpc-Status", "7")
			})
			p := load.Plan{URL: o.URL, Method: "POST", Body: body, Connections: 3, Threads: 1, Requests: bodies,
				Timeout: 20 * time.Second}
			p.Expect = load.Expect{Status: []int{200}, Body: []byte(body),
				Header: []string{"x-kind: large", "Content-Type"}}
			mode.plan(&p)
			r := run(t, p)
			if r.Requests != bodies || r.Errors.Total() != 0 || r.BodyBytes != bodies*uint64(len(body)) ||
				r.SentBytes < r.BodyBytes || r.Bytes < r.BodyBytes && p.TLS == nil {
				t.Errorf("%d requests, %d bytes of bodies, %d sent, errors %+v", r.Requests, r.BodyBytes, r.SentBytes,
					r.Errors)
			}
			testkit.Contains(t, strings.ToLower(r.Head), "x-kind: large\r\n", "head", r.Head)
			p.Requests = 1
			for _, other := range []string{"", body + "x", body[:len(body)-1] + "\x00"} {
				p.Expect = load.Expect{Body: []byte(other)}
				if r = run(t, p); r.Errors.Body != 1 || r.Errors.Total() != 1 ||
					!strings.Contains(r.Errors.First, fmt.Sprintf("differs from the expected %d bytes", len(other))) {
					t.Errorf("a body of %d bytes in place of one of %d: errors %+v", len(body), len(other), r.Errors)
				}
			}
			p.Requests = bodies
			for value, failed := range map[string]uint64{"7": 0, "0": bodies} {
				p.Expect = load.Expect{Header: []string{"X-Kind", "grpc-status: " + value}}
				if p.Version == load.HTTP10 { // has no trailer sections
					failed = bodies
				}
				if r = run(t, p); r.Errors.Header != failed || r.Errors.Total() != failed {
					t.Errorf("grpc-status 7, expected %s: errors %+v", value, r.Errors)
				}
			}
			p.Expect = load.Expect{Header: []string{"X-Kind: small"}}
			if r = run(t, p); r.Errors.Header != bodies || r.Errors.Total() != bodies ||
				!strings.Contains(r.Errors.First, `"X-Kind"`) {
				t.Errorf("another field: errors %+v", r.Errors)
			}
			p.Expect = load.Expect{Status: []int{204}}
			if r = run(t, p); r.Errors.Status != bodies || r.Errors.Total() != bodies {
				t.Errorf("another status: errors %+v", r.Errors)
			}
		})
	}
}

// Requests of a List are sent in order or at random. Their empty fields default to the Plan's.
func TestListIsSentInOrderOrShuffled(t *testing.T) {
	for _, shuffle := range []bool{false, true} {
		o := observe(t, plainly, nil)
		r := run(t, load.Plan{
			URL: o.URL + "/plan", Method: "PUT", Header: []string{"X-Plan: 1"}, Body: "b", Connections: 2, Threads: 1,
			Requests: 300, Shuffle: shuffle,
			List: []load.Request{{}, {URL: "/a", Method: "GET"},
				{URL: o.URL + "/c", Body: "own", Header: []string{"X-Own: 2"}}},
		})
		want := map[string]int{"PUT /plan b": 100, "GET /a b": 100, "PUT /c own": 100}
		if r.Errors.Total() != 0 || !shuffle && !maps.Equal(o.requests, want) {
			t.Errorf("requested %v; errors %+v", o.requests, r.Errors)
		}
		for line := range want {
			testkit.Between(t, o.requests[line], 50, 150, "shuffled:", line)
		}
		testkit.Equal(t, o.headers.Get("X-Plan"), "1", "X-Plan")
	}
}

// A template's values differ in each request, and Content-Length matches.
func TestTemplateValuesDiffer(t *testing.T) {
	for _, name := range []string{"plain", "HTTP/2 over TLS", "pipelined"} {
		mode := modes()[name]
		o := observe(t, mode.start, nil)
		p := load.Plan{
			URL: o.URL + "/items/{{seq}}?r={{random 5 7}}", Method: "POST", Body: "{{hex 4}}{{seq 8 12}}",
			Header:   []string{"X-N: n{{random 3 3}}"},
			Template: true, Connections: 4, Threads: 2, Requests: 200,
		}
		mode.plan(&p)
		r := run(t, p)
		if r.Errors.Total() != 0 || len(o.requests) != 200 || o.headers.Get("X-N") != "n3" {
			t.Fatalf("%s: %d different requests, X-N %q, errors %+v", name, len(o.requests), o.headers.Get("X-N"),
				r.Errors)
		}
		var numbers []int
		tails := make(map[string]int)
		for line := range o.requests {
			var n, random int
			var body string
			if _, err := fmt.Sscanf(line, "POST /items/%d?r=%d %s", &n, &random, &body); err != nil || random < 5 ||
				random > 7 || len(body) < 5 || len(body) > 6 {
				t.Fatalf("%s: %q: %v", name, line, err)
			}
			numbers = append(numbers, n)
			tails[body[4:]]++
		}
		if slices.Sort(numbers); len(slices.Compact(numbers)) != 200 || len(tails) != 5 {
			t.Errorf("%s: numbers %v, ends of bodies %v", name, numbers, tails)
		}
	}
}

func TestSourcesSetTheLocalAddress(t *testing.T) {
	o := observe(t, plainly, nil)
	runCleanly(t, load.Plan{URL: o.URL, Connections: 3, PerConnection: 1, Requests: 30,
		Sources: []netip.Addr{netip.MustParseAddr("127.0.0.77")}})
	for peer := range o.peers {
		if !strings.HasPrefix(peer, "127.0.0.77:") {
			t.Errorf("a connection came from %s", peer)
		}
	}
}

// When the ports of a loopback address are used up, connections come from other addresses.
func TestExhaustedLoopbackPortsAreReplaced(t *testing.T) {
	testkit.Long(t, "it makes 5000 connections")
	o := observe(t, plainly, nil)
	runCleanly(t, load.Plan{URL: o.URL, Connections: 8, Threads: 1, PerConnection: 1, Requests: 5000})
	hosts := make(map[string]bool)
	for peer := range o.peers {
		host, _, _ := net.SplitHostPort(peer)
		hosts[host] = true
	}
	testkit.Equal(t, len(hosts), 2, "addresses")
}

func TestMaxErrorsEndsTheRun(t *testing.T) {
	o := observe(t, plainly, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	for _, p := range []load.Plan{{Duration: time.Hour}, {Requests: 1e9}} {
		p.URL, p.Connections, p.MaxErrors = o.URL, 3, 20
		if r := run(t, p); r.Errors.Total() < 20 || r.Errors.Status != r.Errors.Total() {
			t.Errorf("errors %+v", r.Errors)
		}
	}
}

// A run without a duration ends when the server is gone for good.
func TestMissingServerEndsARunOfRequests(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for a timeout")
	var server *httptest.Server
	var served atomic.Int64
	server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if served.Add(1) == 50 {
			server.Listener.Close()
			go server.CloseClientConnections()
		}
	}))
	defer server.Close()
	r := run(t, load.Plan{URL: server.URL, Connections: 2, Requests: 1e9, Samples: 100})
	if r.Requests < 20 || r.Errors.Connect == 0 {
		t.Errorf("%d requests, errors %+v", r.Requests, r.Errors)
	}
}
