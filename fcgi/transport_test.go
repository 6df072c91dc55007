package fcgi_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	netfcgi "net/http/fcgi"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare/fcgi"
)

// application starts net/http/fcgi.
func application(t testing.TB, network string, h http.HandlerFunc) (addr string) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = t.TempDir() + "/s"
	}
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go netfcgi.Serve(l, h)
	return l.Addr().String()
}

// echo responds with a description of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.Header()["X-Many"] = []string{"one", "two"}
	w.Header().Set("x-method", r.Method)
	w.Header().Set("Content-Type", "text/plain")
	if code, err := strconv.Atoi(r.FormValue("status")); err == nil {
		w.WriteHeader(code)
	}
	fmt.Fprintf(w, "%s %s %s %q %d %v", r.Host, r.URL.RequestURI(), r.Header["X-Of-Request"], body,
		r.ContentLength, err)
}

// each runs a test over TCP and a unix socket, with and without keeping connections.
func each(t *testing.T, h http.HandlerFunc, f func(t *testing.T, tr *fcgi.Transport)) {
	for _, network := range []string{"tcp", "unix"} {
		for _, kept := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s-kept-%d", network, kept), func(t *testing.T) {
				f(t, checked(t, &fcgi.Transport{Network: network, Addr: application(t, network, h),
					MaxIdleConnsPerHost: kept}))
			})
		}
	}
}

func TestMethodsAndStatusesArrive(t *testing.T) {
	each(t, echo, func(t *testing.T, tr *fcgi.Transport) {
		for _, test := range []struct {
			method, path, body, want string
			length                   int64
		}{
			{"GET", "", "", `200 OK app.example / [a, b] "" 0 <nil>`, -1},
			{"", "", "", `200 OK app.example / [a, b] "" 0 <nil>`, -1},
			{"GET", "a%2Fb%20c?status=404&x", "",
				`404 Not Found app.example /a%2Fb%20c?status=404&x [a, b] "" 0 <nil>`, -1},
			{"POST", "p", "small", `200 OK app.example /p [a, b] "small" 5 <nil>`, -1},
			{"PUT", "p?status=201", "small", `201 Created app.example /p?status=201 [a, b] "small" 5 <nil>`, -1},
			{"POST", "p", "", `200 OK app.example /p [a, b] "" 0 <nil>`, -1},
			{"HEAD", "h", "", `200 OK `, -1},
			{"GET", "?status=204", "", `204 No Content `, 0},
			{"GET", "?status=304", "", `304 Not Modified `, 0},
			{"DELETE", "?status=299", "", `299 app.example /?status=299 [a, b] "" 0 <nil>`, -1},
		} {
			r := newRequest(t, "GET", address+test.path, strings.NewReader(test.body))
			r.Method = test.method
			r.Header["X-Of-Request"] = []string{"a", "b"}
			resp, body, err := responseTo(tr, r)
			if err != nil {
				t.Errorf("%s %s: %v", test.method, test.path, err)
				continue
			}
			if got := resp.Status + " " + body; got != test.want || resp.ContentLength != test.length {
				t.Errorf("%s %s\n got %s, length %d\nwant %s, length %d", test.method, test.path, got,
					resp.ContentLength, test.want, test.length)
			}
			if many := fmt.Sprint(resp.Header["X-Many"]); many != "[one two]" || resp.Header.Get("Status") != "" {
				t.Errorf("%s %s: header %v", test.method, test.path, resp.Header)
			}
			if resp.Request != r || resp.Proto != "HTTP/1.1" || resp.ProtoMajor != 1 || resp.ProtoMinor != 1 ||
				resp.Uncompressed || resp.Close {
				t.Errorf("%s %s: %+v", test.method, test.path, resp)
			}
		}
		if want := min(tr.MaxIdleConnsPerHost, 1); tr.Idle() != want {
			t.Errorf("%d connections are kept, want %d", tr.Idle(), want)
		}
	})
}

// pattern is a stream of n bytes that never repeats within a buffer.
type pattern struct {
	block   []byte // repeated
	room    []byte
	at, end int
}

func newPattern(n int) *pattern {
	p := &pattern{block: make([]byte, 99_991), end: n} // a prime, unlike the sizes of buffers
	rand.NewChaCha8([32]byte{1}).Read(p.block)
	return p
}

func (p *pattern) Read(b []byte) (n int, err error) {
	if p.at == p.end {
		return 0, io.EOF
	}
	n = copy(b[:min(len(b), p.end-p.at)], p.block[p.at%len(p.block):])
	p.at += n
	return n, nil
}

// Write compares the written bytes with the next bytes of the stream.
func (p *pattern) Write(b []byte) (n int, err error) {
	if p.room == nil {
		p.room = make([]byte, 64<<10)
	}
	want := p.room
	for n < len(b) {
		k, err := p.Read(want[:min(len(want), len(b)-n)])
		if err != nil || !bytes.Equal(b[n:n+k], want[:k]) {
			return n, fmt.Errorf("an unexpected byte among %d behind %d, or too many", k, p.at-k)
		}
		n += k
	}
	return n, nil
}

// Bodies of 64 MB are sent and received at the same time, unchanged, without being buffered.
func TestLargeBodiesUseConstantMemory(t *testing.T) {
	const size, most = 64 << 20, 16 << 20
	addr := application(t, "unix", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
		io.Copy(w, r.Body)
	})
	tr := checked(t, &fcgi.Transport{Addr: addr, MaxIdleConnsPerHost: 1})
	for _, length := range []int64{size, -1} {
		r := newRequest(t, "POST", address, newPattern(size))
		r.ContentLength = length
		want := newPattern(size)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{want}, resp.Body, make([]byte, 64<<10))
		runtime.ReadMemStats(&after)
		resp.Body.Close()
		if n != size || err != nil {
			t.Errorf("the body's copy ended after %d bytes: %v", n, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > most {
			t.Errorf("%d bytes were allocated", got)
		}
		if received := resp.Header.Get("X-Length"); received != strconv.FormatInt(max(length, 0), 10) {
			t.Errorf("the application received the length %s, want %d", received, length)
		}
		eventually(t, "the connection is released", func() bool { return tr.Active() == 0 })
		if kept := tr.Idle() == 1; kept != (length >= 0) {
			t.Errorf("length %d: the connection is kept: %v", length, kept)
		}
	}
}

// A body of unknown length gets a length if it is buffered, and fails if it is too long.
func TestBufferedBodyHasLength(t *testing.T) {
	addr := application(t, "tcp", echo)
	const limit = 100 << 10
	tr := checked(t, &fcgi.Transport{Addr: addr, BufferBody: limit, MaxIdleConnsPerHost: 1})
	for _, size := range []int{0, 1, 10, 20 << 10, limit} {
		body := strings.Repeat("b", size)
		r := newRequest(t, "POST", address, io.MultiReader(strings.NewReader(body)))
		must(t, tr, r, fmt.Sprintf("app.example / [] %q %d <nil>", body, size))
	}
	body := newClosable(strings.NewReader(strings.Repeat("b", limit+1)))
	_, err := tr.RoundTrip(newRequest(t, "POST", address, body))
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); !ok || tooLong.Limit != limit {
		t.Errorf("a body that is too long: %v", err)
	}
	<-body.closed
}

// The Transport's fields or the URL determine the address of the application.
func TestAddressIsThatOfFieldsOrURL(t *testing.T) {
	tcp, unix := application(t, "tcp", echo), application(t, "unix", echo)
	for _, test := range []struct {
		tr        *fcgi.Transport
		url, want string // the beginning of the response, or a part of the error
	}{
		{&fcgi.Transport{}, "http://" + tcp + "/x", tcp + " /x"},
		{&fcgi.Transport{}, "fcgi://" + tcp + "/x", tcp + " /x"},
		{&fcgi.Transport{Addr: unix}, "http://h/x", "h /x"},
		{&fcgi.Transport{Addr: unix, Network: "unix"}, "https://h/x", "h /x"},
		{&fcgi.Transport{Addr: tcp}, "fcgi://h:12/x", "h:12 /x"},
		{&fcgi.Transport{Addr: tcp, Network: "tcp4"}, "//h/x", "h /x"},
		{&fcgi.Transport{}, "http://localhost/x", "want host and port, or set Addr"},
		{&fcgi.Transport{}, "http://:9000/x", "want host and port, or set Addr"},
		{&fcgi.Transport{Addr: tcp}, "ftp://h/x", "unsupported scheme"},
		{&fcgi.Transport{Addr: unix, Network: "tcp"}, "http://h/x", "tare: connecting to " + unix},
		{&fcgi.Transport{Addr: unix + "-not"}, "http://h/x", "tare: connecting to " + unix + "-not: dial unix"},
	} {
		_, body, err := responseTo(checked(t, test.tr), get(t, test.url))
		if !strings.HasPrefix(body, test.want) && !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%s with %q %q: %q, %v; want %s", test.url, test.tr.Network, test.tr.Addr, body, err, test.want)
		}
	}
}

// An http.Client can use the scheme fcgi, and follows redirects.
func TestHTTPClientUsesTransport(t *testing.T) {
	addr := application(t, "tcp", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/from" {
			http.Redirect(w, r, "/to", http.StatusSeeOther)
			return
		}
		echo(w, r)
	})
	var base http.Transport
	base.RegisterProtocol("fcgi", checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 1}))
	client := &http.Client{Transport: &base, Timeout: patience}
	resp, err := client.Post("fcgi://"+addr+"/from", "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != addr+` /to [] "" 0 <nil>` || err != nil {
		t.Errorf("%q %v", b, err)
	}
}

// proxy serves an application to HTTP clients.
func proxy(t testing.TB, tr http.RoundTripper) (url string) {
	t.Helper()
	s := httptest.NewServer(&httputil.ReverseProxy{Transport: tr, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", p.In.Host
		}})
	t.Cleanup(s.Close)
	return s.URL
}

func TestReverseProxyUsesTransport(t *testing.T) {
	each(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Remote", r.RemoteAddr)
		echo(w, r)
	}, func(t *testing.T, tr *fcgi.Transport) {
		site := proxy(t, tr)
		host := strings.TrimPrefix(site, "http://")
		for _, test := range []struct {
			body io.Reader
			want string
		}{
			{nil, `"" 0`},
			{strings.NewReader("body"), `"body" 4`},
			{io.MultiReader(strings.NewReader("of no known length")), `"of no known length" 0`},
			{strings.NewReader(strings.Repeat("long", 10_000)), `"` + strings.Repeat("long", 10_000) + `" 40000`},
		} {
			r := newRequest(t, "POST", site+"/a/b?c", test.body)
			r.Header.Set("X-Of-Request", "yes")
			resp := must(t, http.DefaultTransport, r, fmt.Sprintf("%s /a/b?c [yes] %s <nil>", host, test.want))
			if resp.Header.Get("X-Method") != "POST" || !strings.HasPrefix(resp.Header.Get("X-Remote"), "127.0.0.1:") {
				t.Errorf("%v", resp.Header)
			}
		}
		r := newRequest(t, "GET", site, nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		must(t, http.DefaultTransport, r, host+` / [] "" 0 <nil>`)
	})
	dead := proxy(t, checked(t, &fcgi.Transport{Addr: t.TempDir() + "/none"}))
	if resp, _, err := responseTo(http.DefaultTransport, get(t, dead)); err != nil ||
		resp.StatusCode != http.StatusBadGateway {
		t.Errorf("without an application: %v", err)
	}
}
