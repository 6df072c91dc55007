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
	t testing.TB
	net.Conn
	records  wire.Reader
	from, to int
	in       [64 << 10]byte
}

// received is a request that a peer has received.
type received struct {
	keep   bool
	params map[string]string
	names  []string
	body   []byte
}

// next returns the next piece of a record, or false at the end of the connection.
func (p *peer) next() (wire.Piece, bool) {
	for {
		piece, n, err := p.records.Next(p.in[p.from:p.to])
		p.from += n
		switch {
		case err != nil:
			p.t.Errorf("the transport sent %v", err)
			return wire.Piece{}, false
		case piece.Type != 0:
			if piece.ID != 1 {
				p.t.Errorf("the transport sent a record for request %d", piece.ID)
			}
			return piece, true
		}
		p.to = copy(p.in[:], p.in[p.from:p.to])
		p.from = 0
		if n, err = p.Read(p.in[p.to:]); err != nil {
			return wire.Piece{}, false
		}
		p.to += n
	}
}

// head receives a request up to its body. It returns nil at the end of the connection.
func (p *peer) head() *received {
	r := &received{params: make(map[string]string)}
	var list []byte
	for begun := false; ; {
		piece, ok := p.next()
		switch {
		case !ok:
			return nil
		case piece.Type == wire.BeginRequest && !begun:
			begin, err := wire.ParseBegin(piece.Content)
			if err != nil || begin.Role != wire.Responder {
				p.t.Errorf("%+v, %v", begin, err)
			}
			begun, r.keep = true, begin.Keep
		case piece.Type == wire.Params && begun && !piece.Ends():
			list = append(list, piece.Content...)
		case piece.Type == wire.Params && begun:
			r.parse(p.t, list)
			return r
		case piece.Type == wire.AbortRequest:
			return nil
		default:
			p.t.Errorf("the transport sent a record of type %d too early", piece.Type)
			return nil
		}
	}
}

func (r *received) parse(t testing.TB, list []byte) {
	for at := 0; at < len(list); {
		pair, next, err := wire.NextPair(list, at)
		if err != nil {
			t.Errorf("the transport sent malformed parameters: %v", err)
			return
		}
		name := string(pair.Name.In(list))
		r.names = append(r.names, name)
		r.params[name] = string(pair.Value.In(list))
		at = next
	}
}

// request receives a request with its body. It returns nil at the end of the connection.
func (p *peer) request() *received {
	r := p.head()
	if r == nil {
		return nil
	}
	for {
		piece, ok := p.next()
		switch {
		case !ok, piece.Type == wire.AbortRequest:
			return nil
		case piece.Type != wire.Stdin:
			p.t.Errorf("the transport sent a record of type %d", piece.Type)
			return nil
		case piece.Ends():
			return r
		}
		r.body = append(r.body, piece.Content...)
	}
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
func piped(t testing.TB, serve func(p *peer, n int)) func(context.Context, string, string) (net.Conn, error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	count := 0
	t.Cleanup(all.Wait)
	return func(context.Context, string, string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		n := count
		count++
		here, there := net.Pipe()
		all.Go(func() {
			defer there.Close()
			serve(&peer{t: t, Conn: there}, n)
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
