package upgrade_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A client sends a request and returns the ID of the process that has responded. It never sends a
// request twice.
type client interface {
	request(text string) (pid int, err error)
	close()
}

// load is traffic by clients of all kinds, which fails the test at the first failed request.
type load struct {
	*site
	stop     atomic.Bool
	running  sync.WaitGroup
	requests atomic.Int64
}

// begin starts n clients of each kind.
func (s *site) begin(n int, kinds ...func() client) *load {
	l := &load{site: s}
	for _, kind := range kinds {
		for i := range n {
			l.running.Go(func() { l.run(kind(), i) })
		}
	}
	s.Cleanup(l.finish)
	return l
}

// run sends requests until the load is stopped.
func (l *load) run(c client, id int) {
	defer c.close()
	for n := 0; !l.stop.Load(); n++ {
		if _, err := c.request(fmt.Sprint(id, n)); err != nil {
			l.Errorf("%T, request %d of a client: %v", c, n, err)
			return
		}
		l.requests.Add(1)
	}
}

func (l *load) finish() {
	l.stop.Store(true)
	l.running.Wait()
}

// more waits until n more requests have been sent, or the test has failed.
func (l *load) more(n int64) {
	l.Helper()
	goal := l.requests.Load() + n
	l.eventually("more requests", func() bool { return l.requests.Load() >= goal || l.Failed() })
}

// rawClient sends POST requests on a connection of its own, as long as the server keeps it.
type rawClient struct {
	network, address string
	once             bool // a new connection for each request
	c                net.Conn
	in               *bufio.Reader
}

func (r *rawClient) close() {
	if r.c != nil {
		r.c.Close()
		r.c = nil
	}
}

func (r *rawClient) request(text string) (pid int, err error) {
	if r.c == nil {
		if r.c, err = net.Dial(r.network, r.address); err != nil {
			return 0, err
		}
		r.in = bufio.NewReader(r.c)
		if err := r.c.SetDeadline(time.Now().Add(patience)); err != nil {
			return 0, err
		}
	}
	connection := ""
	if r.once {
		connection = "Connection: close\r\n"
	}
	if _, err := fmt.Fprintf(r.c, "POST / HTTP/1.1\r\nHost: host\r\n%sContent-Length: %d\r\n\r\n%s", connection,
		len(text), text); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(r.in, nil)
	if err != nil {
		return 0, err
	}
	pid, err = responsePID(resp.Header.Get("Pid"), resp.Body, text)
	if resp.Close {
		r.close()
	}
	return pid, err
}

// http2Client sends POST requests over HTTP/2. It cannot send their bodies twice, unless mayRepeat
// is set.
type http2Client struct {
	url       string
	transport *http.Transport
	mayRepeat bool
}

func newHTTP2Client(address string, mayRepeat bool) client {
	return &http2Client{"https://" + address, &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}, mayRepeat}
}

func (h *http2Client) close() { h.transport.CloseIdleConnections() }

func (h *http2Client) request(text string) (pid int, err error) {
	req, err := http.NewRequest(http.MethodPost, h.url, struct{ io.Reader }{strings.NewReader(text)})
	if err != nil {
		return 0, err
	}
	if h.mayRepeat {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	}
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 {
		return 0, fmt.Errorf("%s", resp.Proto)
	}
	return responsePID(resp.Header.Get("Pid"), resp.Body, text)
}

// clients returns the kinds of clients that a server has.
func (s *site) clients() []func() client {
	raw := func(network, address string, once bool) func() client {
		return func() client { return &rawClient{network: network, address: address, once: once} }
	}
	plain := s.waitFor("plain")
	all := []func() client{raw("tcp", plain, false), raw("tcp", plain, true)}
	if s.Unix {
		all = append(all, raw("unix", s.path("socket"), false))
	}
	if s.TLS {
		secure := s.waitFor("secure")
		// net/http sends GOAWAY without a warning. A client then repeats the requests that were on
		// their way, which is safe: the server names those that it has accepted (RFC 9113, 6.8).
		all = append(all, func() client { return newHTTP2Client(secure, s.Kind == "http") })
	}
	return all
}

// A failed request of each client is reported: else the tests of upgrades would prove nothing.
func TestClientsReportLostRequests(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			if n == 0 { // the second request on the connection is lost
				req, err := http.ReadRequest(in)
				if err == nil {
					b, _ := io.ReadAll(req.Body)
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nPid: 1\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
					_, _ = http.ReadRequest(in)
				}
			}
			c.Close()
		}
	}()
	c := &rawClient{network: "tcp", address: l.Addr().String()}
	defer c.close()
	if pid, err := c.request("x"); pid != 1 || err != nil {
		t.Errorf("first request: %d, %v", pid, err)
	}
	if _, err := c.request("x"); err == nil {
		t.Error("a lost request is not reported")
	}
	if _, err := responsePID("1", bytes.NewReader([]byte("y")), "x"); err == nil {
		t.Error("another body is not reported")
	}
}
