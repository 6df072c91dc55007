package fcgi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/fcgi"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// A response that is cut off is an error even if the request could not be sent.
func TestTruncatedResponseAfterFailedWrite(t *testing.T) {
	body := newClosable(newPattern(20_000))
	tr := checked(t, &fcgi.Transport{Addr: "pipe:1"})
	dial := piped(t, func(p *peer, _ int) {
		p.head()
		p.out("\nhalf")
		p.next()
		<-body.closed // the sender has stopped
	})
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		return &failsLater{Conn: nc}, err
	}
	r := newRequest(t, "POST", address, body)
	r.ContentLength = 20_000
	if _, got, err := responseTo(tr, r); got != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", got, err)
	}
}

// failsLater is a connection whose second write fails.
type failsLater struct {
	net.Conn
	writes int
}

func (f *failsLater) Write(b []byte) (int, error) {
	if f.writes++; f.writes == 1 {
		return f.Conn.Write(b)
	}
	n, _ := f.Conn.Write(b[:20])
	return n, errWanted
}

// The connection is kept once the end of the request has arrived, even if the body is not read.
func TestConnectionIsKeptAfterEndOfRequest(t *testing.T) {
	for _, read := range []int{0, 1, 4} {
		tr := canned(t, true, whole("Content-Length: 4\n\nbody"))
		resp, err := tr.RoundTrip(get(t, address))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(resp.Body, make([]byte, read)); n != read || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if read < 4 {
			resp.Body.Close()
		}
		if tr.Idle() != 1 {
			t.Errorf("%d bytes read: the connection is not kept", read)
		}
		resp.Body.Close()
		if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("read after Close: %d, %v", n, err)
		}
		if tr.Idle() != 1 {
			t.Errorf("%d bytes read: closing twice closed the connection", read)
		}
	}
}

// Closing a body whose end has not arrived closes the connection, and ends a Read that waits.
func TestCloseBeforeEndClosesConnection(t *testing.T) {
	aborted := make(chan bool, 1)
	tr := checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 1, Addr: listen(t, "tcp", func(p *peer, _ int) {
		p.request()
		p.out("\nbody")
		piece, ok := p.next()
		aborted <- ok && piece.Type == wire.AbortRequest
		if _, ok := p.next(); ok {
			t.Error("bytes follow ABORT_REQUEST")
		}
	})})
	resp, err := tr.RoundTrip(get(t, address))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		_, err := resp.Body.Read(make([]byte, 1))
		failed <- err
	}()
	resp.Body.Close()
	if err := <-failed; err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a Read that waited: %v", err)
	}
	if !<-aborted {
		t.Error("the application received no ABORT_REQUEST")
	}
	if tr.Idle()+tr.Active() != 0 {
		t.Error("the connection is kept")
	}
}

// If a response breaks off, so does a proxy's response.
func TestProxyBreaksOffBrokenResponse(t *testing.T) {
	tr := canned(t, false, wire.AppendStream(nil, wire.Stdout, 1, []byte("\nhalf")))
	resp, body, err := responseTo(http.DefaultTransport, get(t, proxy(t, tr)))
	if resp == nil || !strings.HasPrefix("half", body) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%s", describe(resp, body, err))
	}
}

// An error of the connection is wrapped.
func TestReadErrorIsWrapped(t *testing.T) {
	for _, test := range []struct{ from, want error }{{errWanted, errWanted}, {nil, io.ErrNoProgress}} {
		tr := checked(t, &fcgi.Transport{Addr: "x:1",
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go io.Copy(io.Discard, there)
				t.Cleanup(func() { there.Close() })
				return failing{here, test.from}, nil
			}})
		if _, err := tr.RoundTrip(get(t, address)); !errors.Is(err, test.want) {
			t.Errorf("%v, want %v", err, test.want)
		}
	}
}

// failing is a connection whose Read fails.
type failing struct {
	net.Conn
	err error
}

func (f failing) Read([]byte) (int, error) { return 0, f.err }
