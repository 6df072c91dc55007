package front_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/upstream"
	"github.com/tarehq/tare/internal/testkit"
)

// echoed is what an upstream was asked.
type echoed struct {
	Method, URI, Host, Body string
	Header                  http.Header
}

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for _, name := range []string{"Connection", "Content-Length"} { // of the connection, which is ours and nginx's own
		r.Header.Del(name)
	}
	_ = json.NewEncoder(w).Encode(echoed{r.Method, r.RequestURI, r.Host, string(body), r.Header})
}

// served is a server of a handler and its address.
func served(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// passed is the location / that passes to an address.
func passed(p front.Pass) front.Config { return oneHost(front.Location{Path: "/", Pass: &p}) }

// A client's Connection takes nothing away that was set, nor what tells of clients; what is named and set by nobody goes.
func TestConnectionNamesFields(t *testing.T) {
	a := serveHandler(t, newFront(t, passed(front.Pass{To: front.Text(served(t, echo)), Header: []front.Field{{Name: "X-User", Value: "me"}}}), quiet()))
	var e echoed
	got := a.get("/", "Connection", "x-user, X-Forwarded-For , X-Named, keep-alive", "X-User", "evil", "X_User", "evil", "X-Named", "1", "X-Forwarded-For", "1.2.3.4", "X.User", "evil", "Proxy-Authorization", "secret")
	if err := json.Unmarshal([]byte(got.body), &e); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Accept-Encoding", "User-Agent"} {
		delete(e.Header, name)
	}
	if fmt.Sprint(e.Header) != "map[X-Forwarded-For:[1.2.3.4] X-User:[me]]" {
		t.Error(e.Header)
	}
}

// Who asks for another server, and who does not: nothing is done twice that must not be.
func TestNext(t *testing.T) {
	answer := func(i int, w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if i == 1 {
			io.WriteString(w, "second")
			return
		}
		switch r.URL.Path {
		case "/close":
			nc, _, _ := http.NewResponseController(w).Hijack()
			nc.Close()
		case "/junk":
			nc, _, _ := http.NewResponseController(w).Hijack()
			io.WriteString(nc, "what?\r\n\r\n")
			nc.Close()
		case "/slow":
			<-r.Context().Done()
		case "/503":
			w.WriteHeader(503)
			io.WriteString(w, "first")
		}
	}
	for _, test := range []struct {
		next         upstream.Next
		ask          string
		status       int
		body         string
		first, other int64
	}{
		{upstream.Next{}, "GET /close", 200, "second", 1, 1},
		{upstream.Next{}, "PUT /close", 200, "second", 1, 1},
		{upstream.Next{}, "POST /close", 502, "", 1, 0},
		{upstream.Next{}, "PATCH /close", 502, "", 1, 0},
		{upstream.Next{NonIdempotent: true, Error: true}, "POST /close", 200, "second", 1, 1},
		{upstream.Next{Off: true}, "GET /close", 502, "", 1, 0},
		{upstream.Next{Timeout: true}, "GET /close", 502, "", 1, 0},
		{upstream.Next{Tries: 1}, "GET /close", 502, "", 1, 0},
		{upstream.Next{}, "GET /junk", 502, "", 1, 0},
		{upstream.Next{InvalidHeader: true}, "GET /junk", 200, "second", 1, 1},
		{upstream.Next{}, "GET /slow", 200, "second", 1, 1},
		{upstream.Next{}, "POST /slow", 504, "", 1, 0},
		{upstream.Next{Error: true}, "GET /slow", 504, "", 1, 0},
		{upstream.Next{}, "GET /503", 503, "first", 1, 0},
		{upstream.Next{Statuses: []int{503}}, "GET /503", 200, "second", 1, 1},
		{upstream.Next{Statuses: []int{503}}, "POST /503", 503, "first", 1, 0},
		{upstream.Next{Statuses: []int{503}, Tries: 1}, "GET /503", 503, "first", 1, 0},
	} {
		method, path, _ := strings.Cut(test.ask, " ")
		timeout, attempt := patience, func(t testing.TB, try func() error) {
			if err := try(); err != nil {
				t.Error(err)
			}
		}
		if path == "/slow" { // on a busy machine both servers may be
			timeout, attempt = 300*time.Millisecond, testkit.Try
		}
		attempt(t, func() error {
			var asked [2]atomic.Int64
			var servers []upstream.Server
			for i := range asked {
				servers = append(servers, upstream.Server{Addr: served(t, func(w http.ResponseWriter, r *http.Request) {
					asked[i].Add(1)
					answer(i, w, r)
				})})
			}
			c := passed(front.Pass{To: "up", Next: test.next, ReadTimeout: timeout})
			c.Upstreams = []upstream.Config{{Name: "up", Servers: servers}}
			a := serveHandler(t, newFront(t, c, quiet()))
			got := a.ask(method, path, strings.NewReader(strings.Repeat("x", 100)))
			if test.body == "" {
				got.body = ""
			}
			if asked[0].Load() > test.first || asked[1].Load() > test.other {
				t.Errorf("%+v %s: asked %d and %d", test.next, test.ask, asked[0].Load(), asked[1].Load())
			}
			if got.status != test.status || got.body != test.body || asked[0].Load() != test.first || asked[1].Load() != test.other {
				return fmt.Errorf("%+v %s: %d %q, asked %d and %d", test.next, test.ask, got.status, got.body, asked[0].Load(), asked[1].Load())
			}
			return nil
		})
	}
}

// Nobody listens: another one is asked also for what must not be done twice, and without any it is 502.
func TestNobodyListens(t *testing.T) {
	const nobody = "127.0.0.1:1" // a free port of those that are given out could be given to somebody
	c := oneHost(
		front.Location{Path: "/", Pass: &front.Pass{To: "up"}},
		front.Location{Path: "/none", Pass: &front.Pass{To: front.Text(nobody)}},
	)
	c.Hosts[0].Locations[0].Header = []front.AddHeader{{Name: "X-Up", Value: "$upstream_addr|$upstream_status|$upstream_response_length", Always: true}}
	live := served(t, echo)
	c.Upstreams = []upstream.Config{{Name: "up", Servers: []upstream.Server{{Addr: nobody}, {Addr: live}}}}
	a := serveHandler(t, newFront(t, c, quiet()))
	got := a.ask("POST", "/", strings.NewReader("x"))
	if want := nobody + ", " + live + "|502, 200|0, 0"; got.status != 200 || got.header.Get("X-Up") != want && !strings.HasPrefix(got.header.Get("X-Up"), nobody+", "+live+"|502, 200|0, ") {
		t.Errorf("%d %v, want %s", got.status, got.header, want)
	}
	if got := a.get("/none"); got.status != 502 {
		t.Error(got)
	}
}

// Bodies of all sizes arrive as they were, with a length and without, received first or as they come.
func TestRequestBodies(t *testing.T) {
	to := served(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %d %v %x", r.ContentLength, len(b), err, checksum(b))
	})
	for _, stream := range []bool{false, true} {
		c := passed(front.Pass{To: front.Text(to), StreamRequest: stream})
		c.Hosts[0].Locations[0].MaxBody = 300 << 10
		a := serveHandler(t, newFront(t, c, quiet()))
		for _, n := range []int{0, 1, 16 << 10, 16<<10 + 1, 40_000, 300 << 10} {
			body := pattern(n)
			length := n
			for _, known := range []bool{true, false} {
				var r io.Reader = strings.NewReader(body)
				if !known {
					r = struct{ io.Reader }{r}
					if stream {
						length = -1
					}
				}
				if got, want := a.ask("POST", "/", r).body, fmt.Sprintf("%d %d <nil> %x", length, n, checksum([]byte(body))); got != want {
					t.Errorf("stream %v, known %v: %s, want %s", stream, known, got, want)
				}
			}
		}
		for _, r := range []io.Reader{strings.NewReader(pattern(300<<10 + 1)), struct{ io.Reader }{strings.NewReader(pattern(300<<10 + 1))}} {
			if got := a.ask("POST", "/", r); got.status != 413 {
				t.Errorf("stream %v, one byte too many: %d", stream, got.status)
			}
		}
	}
}

func pattern(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return string(b)
}

func checksum(b []byte) (sum uint64) {
	for _, c := range b {
		sum = sum*31 + uint64(c)
	}
	return sum
}

// Answers of all sizes arrive as they were, with a length and without, through memory and files, at any speed.
func TestAnswerBodies(t *testing.T) {
	to := served(t, func(w http.ResponseWriter, r *http.Request) {
		n := 0
		fmt.Sscan(r.FormValue("n"), &n)
		if r.FormValue("known") != "" {
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		io.WriteString(w, pattern(n))
	})
	for name, p := range map[string]front.Pass{
		"usual": {}, "stream": {Stream: true}, "little memory": {BufferBytes: 1}, "no file": {BufferBytes: 1, MaxSpool: -1}, "small file": {BufferBytes: 1, MaxSpool: 100 << 10}, "kept": {Version: "1.1", Header: []front.Field{{Name: "Connection"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p.To = "up"
			c := passed(p)
			c.Upstreams = []upstream.Config{{Name: "up", Servers: []upstream.Server{{Addr: to}}, Keepalive: 4}}
			a := serveHandler(t, newFront(t, c, quiet()))
			for _, n := range []int{0, 1, 8191, 8192, 32 << 10, 32<<10 + 1, 200_000, 3 << 20} {
				for _, known := range []string{"", "&known=1"} {
					resp, err := a.client.Get(fmt.Sprintf("http://x/?n=%d%s", n, known))
					if err != nil {
						t.Fatal(err)
					}
					if n > 1<<20 {
						time.Sleep(20 * time.Millisecond) // a client that is slow
					}
					b, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil || string(b) != pattern(n) {
						t.Errorf("%d%s: %d bytes, %v", n, known, len(b), err)
					}
				}
			}
		})
	}
}

// An upstream is done with long before a slow client has its answer.
func TestSlowClient(t *testing.T) {
	const n = 8 << 20
	done := make(chan bool, 1)
	to := served(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, pattern(n))
		done <- err == nil
	})
	a := serveHandler(t, newFront(t, passed(front.Pass{To: front.Text(to)}), quiet()))
	resp, err := a.client.Get("http://x/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	select {
	case ok := <-done:
		if !ok {
			t.Error("the upstream could not write")
		}
	case <-time.After(patience):
		t.Fatal("the upstream waits for the client")
	}
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != pattern(n) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// What comes is passed on at once where that is asked for.
func TestStream(t *testing.T) {
	next := make(chan bool)
	to := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/asked" {
			w.Header().Set("X-Accel-Buffering", "no")
		}
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	})
	c := oneHost(front.Location{Path: "/asked", Pass: &front.Pass{To: front.Text(to)}}, front.Location{Path: "/stream", Pass: &front.Pass{To: front.Text(to), Stream: true}})
	a := serveHandler(t, newFront(t, c, quiet()))
	for _, path := range []string{"/asked", "/stream"} {
		resp, err := a.client.Get("http://x" + path)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		for i := range 3 {
			n, err := resp.Body.Read(b)
			if want := fmt.Sprintf("data: %d\n\n", i); string(b[:n]) != want || err != nil {
				t.Errorf("%s: %q %v, want %q", path, b[:n], err, want)
			}
			next <- true
		}
		resp.Body.Close()
	}
}

// Trailers and early hints come through.
func TestTrailersAndHints(t *testing.T) {
	to := served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(103)
		w.WriteHeader(102)
		w.Header().Del("Link")
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
	})
	a := serveHandler(t, newFront(t, passed(front.Pass{To: front.Text(to)}), quiet()))
	hints := []string{}
	r, _ := http.NewRequestWithContext(hinted(t, &hints), "GET", "http://x/", nil)
	resp, err := a.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(b) != "body" || resp.Trailer.Get("X-Sum") != "42" || !slices.Equal(hints, []string{"103 </a.css>; rel=preload", "102 </a.css>; rel=preload"}) || resp.Header["Link"] != nil {
		t.Errorf("%q %v %v %v", b, resp.Trailer, hints, resp.Header)
	}
}

// Groups' names are variables wherever a Pass is, and whoever asks first.
func TestReplacesHaveNames(t *testing.T) {
	to := served(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "http://shop.example/x") })
	replaces := func(group string) []front.Replace {
		return []front.Replace{{From: `~^http://(?P<` + group + `>\w+)\.example`, To: front.Text("http://$" + group + ".test")}}
	}
	inner := front.Location{Path: "/", Pass: &front.Pass{To: front.Text(to), Redirects: replaces("inner")}}
	a := serveHandler(t, newFront(t, oneHost(front.Location{
		Path: "/", Pass: &front.Pass{To: front.Text(to), Redirects: replaces("outer")},
		Steps:    []front.Step{front.Set{Name: "early", Value: "$outer$inner"}, front.If{Left: "$arg_x", Location: &inner}},
		Settings: front.Settings{Header: []front.AddHeader{{Name: "X-Outer", Value: "$early$outer"}}},
	}), quiet()))
	if r := a.get("/?x=1"); r.header.Get("Location") != "http://shop.test" {
		t.Errorf("in an if: %v", r.header)
	}
	if r := a.get("/"); r.header.Get("Location") != "http://shop.test" || r.header.Get("X-Outer") != "shop" {
		t.Errorf("%v", r.header)
	}
}

// Errors of a Pass are found when it is compiled.
func TestPassErrors(t *testing.T) {
	uri := front.Text("/x")
	for name, p := range map[string]front.Pass{
		"leads nowhere": {}, "no protocol": {To: "127.0.0.1:1", Protocol: 9}, "invalid port": {To: "127.0.0.1:0"}, "want 1.0 or 1.1": {To: "127.0.0.1:1", Version: "2"},
		"field name": {To: "127.0.0.1:1", Header: []front.Field{{Name: "a b"}}}, "cannot be sent": {To: "127.0.0.1:1", Header: []front.Field{{Name: "a", Value: "b\r\nc"}}},
		"no variable": {To: "127.0.0.1:1", Header: []front.Field{{Name: "a", Value: "$nothing"}}}, "where a request ends": {To: "127.0.0.1:1", Header: []front.Field{{Name: "Transfer-Encoding", Value: "chunked"}}},
		"no other server": {To: "127.0.0.1:1", Next: upstream.Next{Statuses: []int{418}}}, "below zero": {To: "127.0.0.1:1", ReadTimeout: -1}, "no effect": {To: "127.0.0.1:1", Ignore: []string{"X-Any"}},
		"FastCGI has no URI": {To: "127.0.0.1:1", Protocol: front.FastCGI, URI: &uri}, "two groups": {To: "127.0.0.1:1", Protocol: front.FastCGI, SplitPath: "^(.*)$"}, "is none": {To: "127.0.0.1:1", Method: "A B"},
		"not HTTPS": {To: "127.0.0.1:1", TLS: front.PassTLS{SNI: true}}, "not FastCGI": {To: "127.0.0.1:1", ParamIndex: "x"}, "no Version": {To: "127.0.0.1:1", Protocol: front.FastCGI, Version: "1.1"},
		"cannot be set": {To: "127.0.0.1:1", Redirects: []front.Replace{{From: "~(?P<host>.)", To: "y"}}},
	} {
		c := passed(p)
		c.Hosts[0].Locations[0].Pos = "nginx.conf:7"
		_, err := front.New(c)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "nginx.conf:7") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, u := range map[string][]upstream.Config{
		"two upstreams": {{Name: "a", Servers: []upstream.Server{{Addr: "127.0.0.1"}}}, {Name: "A", Servers: []upstream.Server{{Addr: "127.0.0.1"}}}},
		"want a Key":    {{Name: "a", Balance: upstream.Hash, Servers: []upstream.Server{{Addr: "127.0.0.1"}}}},
		"no servers":    {{Name: "a", Pos: "nginx.conf:7"}},
	} {
		c := passed(front.Pass{To: "127.0.0.1:1"})
		c.Upstreams = u
		if _, err := front.New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A request that cannot be sent to any server is the fault of none.
func TestUnsendable(t *testing.T) {
	uri := front.Text("$uri")
	for name, p := range map[string]front.Pass{
		"target": {URI: &uri}, "host": {Header: []front.Field{{Name: "Host", Value: "$arg_host"}}}, "method": {Method: "$arg_method"},
	} {
		p.To = "up"
		c := passed(p)
		c.Upstreams = []upstream.Config{{Name: "up", Servers: []upstream.Server{{Addr: served(t, echo)}, {Addr: served(t, echo)}}}}
		a := serveHandler(t, newFront(t, c, quiet()))
		bad := map[string]string{"target": "/a%20b", "host": "/?host=a/b", "method": "/?method=a/b"}[name]
		if got := a.get(bad); got.status != 502 {
			t.Errorf("%s: %d", name, got.status)
		}
		if got := a.get("/ok"); got.status != 200 {
			t.Errorf("behind a %s that cannot be sent: %d", name, got.status)
		}
	}
}

// How long an answer may take does not depend on how long the request may have taken, which is more here.
func TestReadTimeoutAfterBody(t *testing.T) {
	to := raw(t, func(nc net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(nc))
		if err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			<-gone(nc)
		}
	})
	for _, stream := range []bool{false, true} {
		a := serveHandler(t, newFront(t, passed(front.Pass{To: front.Text(to), ReadTimeout: 200 * time.Millisecond, SendTimeout: patience, StreamRequest: stream}), quiet()))
		began := time.Now()
		got := a.ask("POST", "/", strings.NewReader(pattern(100_000)))
		if got.status != 504 || time.Since(began) >= patience {
			t.Errorf("streamed %v: %d after %v", stream, got.status, time.Since(began))
		}
	}
}

// A client's word that a request may be done twice does not have another server asked: the Config says that.
func TestNextIdempotencyKey(t *testing.T) {
	asked := make(chan bool, 2)
	var servers []upstream.Server
	for range 2 {
		servers = append(servers, upstream.Server{Addr: raw(t, func(nc net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
				asked <- true
			}
		})})
	}
	c := passed(front.Pass{To: "up"})
	c.Upstreams = []upstream.Config{{Name: "up", Servers: servers}}
	a := serveHandler(t, newFront(t, c, quiet()))
	if got := a.ask("POST", "/", strings.NewReader("x"), "Idempotency-Key", "1"); got.status != 502 || len(asked) != 1 {
		t.Errorf("%d, asked %d times", got.status, len(asked))
	}
}

// A body that is sent once more, because the server has closed a kept connection, has the bounds of the first time: those of sending end with it.
func TestBodyAgain(t *testing.T) {
	testkit.Try(t, func() error { return bodyAgain(t) }) // on a busy machine there may be a pause in sending
}

func bodyAgain(t *testing.T) error {
	var n atomic.Int64
	to := raw(t, func(nc net.Conn) {
		first := n.Add(1) == 1
		br := bufio.NewReader(nc)
		for i := 0; ; i++ {
			r, err := http.ReadRequest(br)
			if err != nil || first && i == 1 {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if !first {
				time.Sleep(1200 * time.Millisecond)
			}
			fmt.Fprint(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		}
	})
	c := passed(front.Pass{To: "up", Version: "1.1", Header: []front.Field{{Name: "Connection"}}, SendTimeout: 800 * time.Millisecond})
	c.Hosts[0].Locations[0].MaxBody = -1 // more than sockets take
	c.Upstreams = []upstream.Config{{Name: "up", Keepalive: 2, Servers: []upstream.Server{{Addr: to}}}}
	a := serveHandler(t, newFront(t, c, quiet()))
	a.get("/")
	if got := a.ask("GET", "/", strings.NewReader(strings.Repeat("x", 8<<20))); got.status != 200 || n.Load() != 2 {
		return fmt.Errorf("%d, %d connections", got.status, n.Load())
	}
	return nil
}
