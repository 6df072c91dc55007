package front_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// proxyVariants are directives for the ways in which a response is forwarded: buffered or not, stored
// or not.
func proxyVariants() []string {
	const stored = "P_cache one; P_cache_key $uri;"
	return []string{"", "P_buffering off;", stored, stored + "P_buffering off;"}
}

// An upstream is killed after every byte of its response. The client sees another status or an
// incomplete response, which is not stored.
func TestKilledUpstreamIsNoticed(t *testing.T) {
	noLeaks(t)
	big := strings.Repeat("0123456789abcdef", 40<<10/16)
	records := wire.AppendStream(nil, wire.Stdout, 1, []byte("Cache-Control: max-age=60\n\n01234"))
	records = wire.AppendStreamEnd(wire.AppendStream(records, wire.Stdout, 1, []byte("56789")), wire.Stdout, 1)
	for name, reply := range map[string]struct {
		protocol, scheme, text, body string
		step                         int
	}{
		"length": {"proxy", "http://", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nCache-Control: max-age=60\r\n\r\n0123456789", "0123456789", 1},
		"chunks": {"proxy", "http://", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n4\r\n0123\r\n6;x=y\r\n456789\r\n0\r\nX-T: 1\r\n\r\n", "0123456789", 1},
		"long, length": {"proxy", "http://", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(big),
			big), big, 1999},
		"long, chunked": {"proxy", "http://", fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
			len(big), big), big, 1999},
		"FastCGI": {"fastcgi", "", string(wire.AppendEnd(records, 1, wire.End{})), "0123456789", 1},
	} {
		var at int
		to := testkit.ServeTCP(t, func(nc net.Conn) {
			if n, _ := nc.Read(make([]byte, 64<<10)); n > 0 {
				io.WriteString(nc, reply.text[:at])
			}
		})
		for _, variant := range proxyVariants() {
			replacer := strings.NewReplacer("P_", reply.protocol+"_", "TO", reply.scheme+to)
			a := serveConf(t, replacer.Replace("P_cache_path DIR/cache keys_zone=one:1m;"),
				replacer.Replace(variant+"location / { P_pass TO; }"), front.CachesInMemory())
			for at = 0; at <= len(reply.text); at += min(reply.step, max(1, len(reply.text)-at)) {
				got, err := a.attempt("GET", "/", nil)
				whole := at == len(reply.text)
				switch {
				case whole && (err != nil || got.status != 200 || got.body != reply.body):
					t.Errorf("%s, %s: whole: %d %d bytes %v", name, variant, got.status, len(got.body), err)
				case !whole && err == nil && got.status < 500 || !strings.HasPrefix(reply.body, got.body) && err != nil:
					t.Errorf("%s, %s: killed at %d: %d %.50q %v", name, variant, at, got.status, got.body, err)
				}
			}
		}
	}
}

// inTrailer returns a response with a field in its trailer section.
func inTrailer(fields, trailer string) string {
	return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + fields + "\r\n2\r\nhi\r\n0\r\n" + trailer +
		"\r\n\r\n"
}

// A malformed or unexpected response gets 502, and a missing one 504.
func TestMalformedResponsesGet502(t *testing.T) {
	for name, test := range map[string]struct {
		reply  string
		status int
	}{
		"nothing": {"", 502}, "no HTTP": {"SSH-2.0-x\r\n\r\n", 502}, "HTTP/0.9": {"hello", 502},
		"old":             {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200},
		"huge head":       {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 100<<10) + "\r\n\r\n", 502},
		"many fields":     {"HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", 5000) + "\r\n", 502},
		"two lengths":     {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi", 502},
		"length and more": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502},
		"folded":          {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", 502},
		"101 unasked":     {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nevil", 502},
		"storm": {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 2000) +
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 502},
		"hints": {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 3) +
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200},
		"more than it has":  {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 200},
		"length in trailer": {inTrailer("", "Content-Length: 4"), 200},
		"coding in trailer": {inTrailer("", "Transfer-Encoding: chunked"), 200},
		"host in trailer":   {inTrailer("", "Host: evil"), 200},
		"length announced":  {inTrailer("Trailer: Content-Length, X-T\r\n", "X-T: 1"), 200},
		"NUL":               {"HTTP/1.1 200 OK\r\nA: \x00\r\nContent-Length: 0\r\n\r\n", 502},
		"space in name":     {"HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 0\r\n\r\n", 502},
	} {
		to := testkit.ServeTCP(t, func(nc net.Conn) {
			if readHead(nc) == nil {
				io.WriteString(nc, test.reply)
				time.Sleep(5 * time.Millisecond)
			}
		})
		a := serveHandler(t, newFront(t, proxyTo(conf.Proxy{To: conf.Text(to)})))
		for range 2 {
			got, err := a.attempt("GET", "/", nil)
			if err != nil || got.status != test.status || strings.Contains(got.body, "evil") {
				t.Errorf("%s: %v %v, want %d", name, got, err, test.status)
			}
		}
	}
}

// Requests continue while two servers restart in turns: repeatable requests never fail, and others
// are never repeated.
func TestRestartsLoseNoRepeatableRequest(t *testing.T) {
	noLeaks(t)
	restarts := 10
	if testkit.Slow() {
		restarts = 100
	}
	var done sync.Map // POST requests by number: how often they arrived
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := r.Header.Get("X-Number"); n != "" {
			if _, twice := done.LoadOrStore(n, true); twice {
				t.Errorf("POST %s was done twice", n)
			}
		}
		io.Copy(w, r.Body)
	})
	servers := []*restarting{startRestarting(t, "127.0.0.1:0", handler), startRestarting(t, "127.0.0.1:0", handler)}
	a := serveConf(t, fmt.Sprintf("upstream up { server %s max_fails=0; server %s max_fails=0; keepalive 8; }",
		servers[0].addr, servers[1].addr), keeping+"location / { proxy_pass http://up; }")
	var ended atomic.Bool
	var all sync.WaitGroup
	var finished [4]atomic.Int64 // requests by worker
	for worker := range finished {
		all.Go(func() {
			for n := 0; !ended.Load(); n++ {
				finished[worker].Add(1)
				if n%4 == 3 {
					// it may fail
					_, _ = a.attempt("POST", "/", strings.NewReader("x"), "X-Number", fmt.Sprint(worker, "-", n))
					continue
				}
				if got, err := a.attempt("GET", "/", nil); err != nil || got.status != 200 {
					t.Errorf("GET failed: %v %v", got, err)
				}
			}
		})
	}
	for i := range restarts {
		servers[i%2].restart(servers[i%2].addr)
		for worker := range finished { // no request sees two restarts
			n := finished[worker].Load() + 4
			testkit.WaitFor(t, "requests", func() bool { return finished[worker].Load() >= n })
		}
	}
	ended.Store(true)
	all.Wait()
}

// restarting is a server that can be restarted, at the same address or at another one.
type restarting struct {
	t       testing.TB
	handler http.Handler
	addr    string
	server  *http.Server
}

func startRestarting(t testing.TB, addr string, h http.Handler) *restarting {
	r := &restarting{t: t, handler: h, server: new(http.Server)}
	r.restart(addr)
	t.Cleanup(func() { r.server.Close() })
	return r
}

func (r *restarting) restart(addr string) {
	r.t.Helper()
	r.server.Close()
	var l net.Listener
	testkit.WaitFor(r.t, "the address", func() (free bool) {
		var err error
		l, err = net.Listen("tcp", addr)
		return err == nil
	})
	r.addr, r.server = l.Addr().String(), &http.Server{Handler: r.handler}
	go r.server.Serve(l)
}

// panicky is a writer that panics at a status.
type panicky struct {
	http.ResponseWriter
	at int
}

func (w *panicky) WriteHeader(status int) {
	if status == w.at {
		panic("ouch")
	}
	w.ResponseWriter.WriteHeader(status)
}

// A panic of an outer writer does not occupy a place at a server forever.
func TestPanicReleasesServer(t *testing.T) {
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(nc))
		if err != nil {
			return
		}
		first := map[string]string{"/hint": "103 Early Hints\r\nLink: </a>", "/missing": "404 Not Found",
			"/moved": "200 OK\r\nX-Accel-Redirect: nowhere"}[r.URL.Path]
		if first != "" {
			io.WriteString(nc, "HTTP/1.1 "+first+"\r\n\r\n")
		}
		io.WriteString(nc, "HTTP/1.1 200 OK\r\n\r\nhi")
	})
	for path, at := range map[string]int{"/hint": 103, "/moved": 404, "/missing": 302, "/ok": 200} {
		page := "error_page 404 http://x/;"
		if path == "/moved" {
			page = ""
		}
		h := confFront(t, "upstream up { server "+to+" max_conns=1; }", page+
			"location / { proxy_pass http://up; proxy_intercept_errors on; }", nil)
		func() {
			defer func() { testkit.Equal(t, recover(), any("ouch"), path) }()
			h.ServeHTTP(&panicky{httptest.NewRecorder(), at}, httptest.NewRequest("GET", path, nil))
		}()
		get(t, h, "/ok").is(t, 200)
	}
}
