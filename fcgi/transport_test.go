package fcgi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	netfcgi "net/http/fcgi"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// patience is how long a test waits for an event that must happen.
const patience = time.Minute

// checked fails the test if the Transport has left something at its end: a goroutine, a connection
// in use, or a waiting request.
func checked(t testing.TB, tr *fcgi.Transport) *fcgi.Transport {
	t.Cleanup(func() {
		testkit.WaitFor(t, "the transport has no connection", func() bool {
			tr.CloseIdleConnections() // the sender of a body may return a connection late
			return tr.Pools() == 0
		})
		testkit.WaitFor(t, "the transport has no goroutine", func() bool { return ours() == "" })
	})
	return tr
}

// ours returns the stacks of goroutines that a Transport has started.
func ours() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var found []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		_, creator, _ := strings.Cut(stack, "created by ")
		// a goroutine of the pool may linger
		if strings.Contains(creator, "internal/client.") && !strings.Contains(creator, "client.(*pool)") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// peer is an application that a test writes record by record.
type peer struct {
	net.Conn
	keeps bool // whether the last request has FCGI_KEEP_CONN
}

// request receives a request and returns its parameters. It returns nil at the end of the
// connection, or if the request is aborted.
func (p *peer) request() (params map[string]string) {
	params, _, keeps, err := testkit.ReadFastCGI(p)
	if p.keeps = keeps; err != nil {
		return nil
	}
	return params
}

// out sends a part of a response.
func (p *peer) out(s string) error {
	_, err := p.Write(wire.AppendStream(nil, wire.Stdout, 1, []byte(s)))
	return err
}

func (p *peer) respond(s string) { p.Write(whole(s)) }

// ended returns the end of a request as most applications send it.
func ended(app uint32, status wire.Status) []byte {
	return wire.AppendEnd(wire.AppendStreamEnd(nil, wire.Stdout, 1), 1, wire.End{App: app, Status: status})
}

// whole returns a complete response.
func whole(s string) []byte {
	return append(wire.AppendStream(nil, wire.Stdout, 1, []byte(s)), ended(0, wire.Complete)...)
}

// piped returns a DialContext to an application at the other end of a pipe, which buffers nothing.
// Before it writes, the Transport cannot detect that the other end is closed.
func piped(t testing.TB, serve func(p *peer)) func(context.Context, string, string) (net.Conn, error) {
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	return func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		all.Go(func() {
			defer there.Close()
			serve(&peer{Conn: there})
		})
		return here, nil
	}
}

const address = "http://app.example/" // for a Transport with an Addr or a DialContext

func get(t testing.TB, url string) *http.Request { return newRequest(t, http.MethodGet, url, nil) }

func newRequest(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	return testkit.Value(http.NewRequestWithContext(t.Context(), method, url, body))(t)
}

// responseTo returns all parts of a response.
func responseTo(tr http.RoundTripper, r *http.Request) (resp *http.Response, body string, err error) {
	resp, err = tr.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// describe describes an outcome completely.
func describe(resp *http.Response, body string, err error) string {
	if resp == nil {
		return fmt.Sprintf("no response: %v", err)
	}
	var b bytes.Buffer
	resp.Header.Write(&b)
	return fmt.Sprintf("%s %s %d %q %q %v", resp.Proto, resp.Status, resp.ContentLength, b.String(), body, err)
}

// must fails the test unless a request gets the wanted body.
func must(t testing.TB, tr http.RoundTripper, r *http.Request, want string) *http.Response {
	t.Helper()
	resp, body, err := responseTo(tr, r)
	if err != nil || body != want {
		t.Fatalf("%s %s: %s; want %q", r.Method, r.URL, describe(resp, body, err), want)
	}
	return resp
}

// closable records that it was closed.
type closable struct {
	io.Reader
	closed chan struct{}
	once   sync.Once
}

func newClosable(r io.Reader) *closable { return &closable{Reader: r, closed: make(chan struct{})} }

func (c *closable) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

var errWanted = errors.New("the test wants it so")

// application starts net/http/fcgi.
func application(t testing.TB, network string, h http.HandlerFunc) (addr string) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = t.TempDir() + "/s"
	}
	l := testkit.Value(net.Listen(network, at))(t)
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

func TestMethodsAndStatusesArrive(t *testing.T) {
	for i, network := range []string{"tcp", "tcp", "unix", "unix"} { // each with and without keeping connections
		t.Run(fmt.Sprint(network, i), func(t *testing.T) {
			tr := checked(t, &fcgi.Transport{Network: network, Addr: application(t, network, echo),
				MaxIdleConnsPerHost: i % 2})
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
				testkit.Must(t, err)
				testkit.Equal(t, resp.Status+" "+body, test.want, test.method, test.path)
				testkit.Equal(t, resp.ContentLength, test.length, test.method, test.path)
				testkit.Fields(t, resp.Header, "the response", "X-Many", "one, two", "Status", "")
				if resp.Request != r || resp.Proto != "HTTP/1.1" || resp.ProtoMajor != 1 || resp.ProtoMinor != 1 ||
					resp.Uncompressed || resp.Close {
					t.Errorf("%s %s: %+v", test.method, test.path, resp)
				}
			}
			testkit.Equal(t, tr.Idle(), i%2, "connections are kept")
		})
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
		{&fcgi.Transport{}, "http://localhost:/x", "want host and port, or set Addr"},
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
