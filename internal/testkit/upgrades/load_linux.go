package upgrades

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

	"github.com/tarehq/tare/internal/testkit"
)

// A Client sends a request to a server that responds with the request's body. It never sends a
// request twice, and returns the response's field Pid.
type Client interface {
	Request(uri, text string) (pid string, err error)
	Close()
}

// Load is traffic by clients of all kinds. The first failed request fails the test.
type Load struct {
	Requests atomic.Int64

	site    *Site
	stop    atomic.Bool
	running sync.WaitGroup
}

// Load starts the traffic of no clients.
func (s *Site) Load() *Load {
	l := &Load{site: s}
	s.Cleanup(l.Finish)
	return l
}

// Add starts a client. It sends a number at the end of each request target and body.
func (l *Load) Add(c Client, uri, text string) {
	l.running.Go(func() {
		defer c.Close()
		for n := 0; !l.stop.Load(); n++ {
			target := fmt.Sprint(uri, n)
			if _, err := c.Request(target, fmt.Sprint(text, n)); err != nil {
				l.site.Errorf("%T, %s: %v", c, target, err)
				return
			}
			l.Requests.Add(1)
		}
	})
}

// Finish ends the traffic.
func (l *Load) Finish() {
	l.stop.Store(true)
	l.running.Wait()
}

// More waits until n more requests have been sent, or the test has failed.
func (l *Load) More(n int64) {
	l.site.Helper()
	goal := l.Requests.Load() + n
	testkit.WaitFor(l.site, "more requests", func() bool { return l.Requests.Load() >= goal || l.site.Failed() })
}

// RawClient sends POST requests on a connection of its own, as long as the server keeps it.
type RawClient struct {
	Network, Address string
	Once             bool // a new connection for each request
	Kept             bool // the connection is open

	c  net.Conn
	in *bufio.Reader
}

// Close closes the connection, if any.
func (r *RawClient) Close() {
	if r.Kept {
		r.c.Close()
		r.Kept = false
	}
}

// Request sends a request, on a new connection if none is kept.
func (r *RawClient) Request(uri, text string) (pid string, err error) {
	if !r.Kept {
		if r.c, err = net.Dial(r.Network, r.Address); err != nil {
			return "", err
		}
		r.in, r.Kept = bufio.NewReader(r.c), true
	}
	if err := r.c.SetDeadline(time.Now().Add(Patience)); err != nil {
		return "", err
	}
	connection := ""
	if r.Once {
		connection = "Connection: close\r\n"
	}
	if _, err := fmt.Fprintf(r.c, "POST %s HTTP/1.1\r\nHost: host\r\n%sContent-Length: %d\r\n\r\n%s", uri, connection,
		len(text), text); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(r.in, nil)
	if err != nil {
		return "", err
	}
	if resp.Close {
		defer r.Close()
	}
	return CheckEcho(resp, text)
}

// CheckEcho returns a response's field Pid, or an error if the response is not an echo of a text.
func CheckEcho(resp *http.Response, want string) (pid string, err error) {
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err == nil && (resp.StatusCode != http.StatusOK || string(b) != want) {
		err = fmt.Errorf("%s: got %q, want %q", resp.Status, b, want)
	}
	return resp.Header.Get("Pid"), err
}

// HTTP2Client sends POST requests over HTTP/2. It cannot send their bodies twice, unless MayRepeat
// is set.
type HTTP2Client struct {
	Address   string
	MayRepeat bool

	transport http.Transport
}

// Close closes the connection, if any.
func (h *HTTP2Client) Close() { h.transport.CloseIdleConnections() }

// Request sends a request. The first one opens the connection.
func (h *HTTP2Client) Request(uri, text string) (pid string, err error) {
	if h.transport.TLSClientConfig == nil {
		h.transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		h.transport.ForceAttemptHTTP2 = true
	}
	req, err := http.NewRequest(http.MethodPost, "https://"+h.Address+uri, struct{ io.Reader }{strings.NewReader(text)})
	if err != nil {
		return "", err
	}
	if h.MayRepeat {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	}
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	if resp.ProtoMajor != 2 {
		resp.Body.Close()
		return "", fmt.Errorf("%s", resp.Proto)
	}
	return CheckEcho(resp, text)
}
