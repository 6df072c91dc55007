package server_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A client sends a request with a body. It never sends one twice.
type client interface {
	request(uri, text string) error
	close()
}

// load is traffic by clients of all kinds, which fails the test at the first failed request.
type load struct {
	*site
	stop     atomic.Bool
	running  sync.WaitGroup
	requests atomic.Int64
	tunneled atomic.Int64 // those of websockets
}

// begin starts clients of all kinds.
func (s *site) begin() *load {
	l := &load{site: s}
	raw := func(network, address string, once bool) func() client {
		return func() client { return &rawClient{network: network, address: address, once: once} }
	}
	for i, kind := range []func() client{
		raw("tcp", s.host+":8000", false), raw("tcp", s.host+":8001", true), raw("unix", s.path("socket"), false),
		s.newHTTP2Client,
	} {
		for n, path := range []string{"/", "/fcgi"} {
			l.running.Go(func() { l.run(kind(), fmt.Sprintf("%s?%d.%d.", path, i, n)) })
		}
	}
	l.running.Go(func() { l.run(&tunnel{site: s}, "/websocket") })
	s.Cleanup(l.finish)
	return l
}

// run sends requests until the load is stopped.
func (l *load) run(c client, uri string) {
	defer c.close()
	for n := 0; !l.stop.Load(); n++ {
		target := fmt.Sprint(uri, n)
		if err := c.request(target, fmt.Sprint("text ", n)); err != nil {
			l.Errorf("%T, %s: %v", c, target, err)
			return
		}
		l.requests.Add(1)
		if _, ok := c.(*tunnel); ok {
			l.tunneled.Add(1)
		}
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

func (r *rawClient) request(uri, text string) (err error) {
	if r.c == nil {
		if r.c, err = net.Dial(r.network, r.address); err != nil {
			return err
		}
		r.in = bufio.NewReader(r.c)
	}
	if err := r.c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	connection := ""
	if r.once {
		connection = "Connection: close\r\n"
	}
	if _, err := fmt.Fprintf(r.c, "POST %s HTTP/1.1\r\nHost: host\r\n%sContent-Length: %d\r\n\r\n%s", uri, connection,
		len(text), text); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r.in, nil)
	if err != nil {
		return err
	}
	if resp.Close {
		defer r.close()
	}
	return checkEcho(resp, text)
}

// checkEcho returns an error if a response is not the request's body.
func checkEcho(resp *http.Response, want string) error {
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err == nil && (resp.StatusCode != http.StatusOK || string(b) != want) {
		err = fmt.Errorf("%s: got %q, want %q", resp.Status, b, want)
	}
	return err
}

// http2Client sends POST requests over HTTP/2. It cannot send their bodies twice.
type http2Client struct {
	url       string
	transport *http.Transport
}

func (s *site) newHTTP2Client() client {
	return &http2Client{"https://" + s.host + ":8443", &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
}

func (h *http2Client) close() { h.transport.CloseIdleConnections() }

func (h *http2Client) request(uri, text string) error {
	req, err := http.NewRequest(http.MethodPost, h.url+uri, struct{ io.Reader }{strings.NewReader(text)})
	if err != nil {
		return err
	}
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	if resp.ProtoMajor != 2 {
		return fmt.Errorf("%s", resp.Proto)
	}
	return checkEcho(resp, text)
}

// tunnel is a client of a websocket. Each request is a line; a connection has tunnelLines of them.
type tunnel struct {
	*site
	lines int
	c     net.Conn
	in    *bufio.Reader
}

const tunnelLines = 100

func (w *tunnel) close() {
	if w.c != nil {
		w.c.Close()
		w.c = nil
	}
}

func (w *tunnel) request(uri, text string) (err error) {
	if w.c == nil {
		if err := w.open(uri); err != nil {
			return err
		}
	}
	if err := w.c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w.c, text); err != nil {
		return err
	}
	if line, err := w.in.ReadString('\n'); err != nil || line != text+"\n" {
		return fmt.Errorf("%q, %w", line, err)
	}
	if w.lines++; w.lines%tunnelLines == 0 {
		w.close()
	}
	return nil
}

func (w *tunnel) open(uri string) (err error) {
	if w.c, err = net.Dial("tcp", w.host+":8000"); err != nil {
		return err
	}
	w.in = bufio.NewReader(w.c)
	fmt.Fprintf(w.c, "GET %s HTTP/1.1\r\nHost: host\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n", uri)
	resp, err := http.ReadResponse(w.in, nil)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("%s", resp.Status)
	}
	return err
}
