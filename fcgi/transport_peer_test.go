package fcgi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
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
