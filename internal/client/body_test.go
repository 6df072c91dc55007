package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// A body reports input if, and only if, a Read would return at once.
func TestBodiesReportInput(t *testing.T) {
	overAll(t, func(s *site) {
		next := make(chan bool)
		s.serve(func(_ int, c speaker) {
			if _, _, ok := receive(c); !ok {
				return
			}
			c.begin()
			c.send("hello")
			<-next
			c.send(" world")
			<-next
			c.end()
			<-next
		})
		resp := testkit.Value(s.the().RoundTrip(s.request("GET", nil)))(t)
		defer close(next)
		body := resp.Body.(*responseBody)
		for i, text := range []string{"hello", " world"} {
			b := make([]byte, len(text))
			if n, err := body.Read(b[:2]); n != 2 || err != nil || !body.HasInput() {
				t.Fatalf("%q: %d bytes, %v, or no input", text, n, err)
			}
			if _, err := io.ReadFull(body, b[2:]); err != nil || string(b) != text || body.HasInput() {
				t.Fatalf("%q, %v, or input without any", b, err)
			}
			if next <- true; i == 0 && body.x.conn.probe != nil {
				testkit.WaitFor(t, "input", body.HasInput)
			}
		}
		if n, err := body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) || !body.HasInput() {
			t.Fatalf("%d bytes, %v, or no end", n, err)
		}
	})
}

// TLS may hold records that the client has not read: they are input, too.
func TestBodiesReportInputThatTLSHolds(t *testing.T) {
	serverTLS, clientTLS := testkit.TLSConfigs()
	end := make(chan bool)
	address := testkit.ServeTCP(t, func(nc net.Conn) {
		once := &joinedWrites{Conn: nc}
		tc := tls.Server(once, serverTLS)
		if _, err := http.ReadRequest(bufio.NewReader(tc)); err != nil {
			return
		}
		once.isHeld = true
		for _, record := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "a", "b", "c"} {
			_, _ = io.WriteString(tc, record)
		}
		_, _ = nc.Write(once.held)
		<-end
	})
	c := New(&Config{Settings: &http.Transport{TLSClientConfig: clientTLS}})
	resp := testkit.Value(c.RoundTrip(request(t, "GET", "https://"+address, nil)))(t)
	defer close(end)
	for _, want := range []string{"a", "b", "c"} {
		var b [8]byte
		n, err := resp.Body.Read(b[:])
		has := resp.Body.(*responseBody).HasInput()
		if string(b[:n]) != want || err != nil || has != (want != "c") {
			t.Fatalf("%q, %v, input %v; want %q", b[:n], err, has, want)
		}
	}
	resp.Body.Close()
}

// joinedWrites is a connection that keeps what is written while isHeld is set.
type joinedWrites struct {
	net.Conn
	isHeld bool
	held   []byte
}

func (c *joinedWrites) Write(p []byte) (int, error) {
	if c.isHeld {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A cause of io.EOF, which readers take for the end of a body, is not returned.
func TestCauseIsNeverEOF(t *testing.T) {
	for cause, want := range map[error]error{nil: context.Canceled, io.EOF: context.Canceled,
		io.ErrShortWrite: io.ErrShortWrite} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		testkit.Is(t, contextCause(ctx), want, cause)
	}
}

// A body that was received with its head is written by one Write, once.
func TestWholeBodyIsWrittenOnce(t *testing.T) {
	b := &WholeBody{Text: "hello"}
	var once [1]byte
	testkit.Equal(t, testkit.Value(b.Read(once[:]))(t), 1)
	var w writes
	for _, want := range []int64{4, 0} {
		testkit.Equal(t, testkit.Value(b.WriteTo(&w))(t), want)
	}
	testkit.Equal(t, fmt.Sprint(w), "[ello]")
	_ = b.Close()
	testkit.FailsWith(b.WriteTo(&w))(t, ErrClosedBody)
}

type writes []string

func (w *writes) Write(p []byte) (int, error) { *w = append(*w, string(p)); return len(p), nil }

// pieceConn records what is written, and ends the input when the request is complete.
type pieceConn struct {
	scriptedConn
	lastWrite string

	mu     sync.Mutex
	wake   sync.Cond
	writes []string
}

func (c *pieceConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, string(p))
	c.wake.Broadcast()
	return len(p), nil
}

func (c *pieceConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	for !strings.HasSuffix(strings.Join(c.writes, ""), c.lastWrite) {
		c.wake.Wait()
	}
	c.mu.Unlock()
	return c.scriptedConn.Read(p)
}

// arriving is a body whose pieces arrive one after another.
type arriving struct {
	pieces  []string
	arrived int   // number of Reads that return at once
	err     error // at the end; nil is io.EOF
}

func (b *arriving) HasInput() bool { return b.arrived > 0 }
func (b *arriving) Close() error   { return nil }

func (b *arriving) Read(p []byte) (int, error) {
	b.arrived--
	if len(b.pieces) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		return 0, io.EOF
	}
	n := copy(p, b.pieces[0])
	if b.pieces[0] = b.pieces[0][n:]; b.pieces[0] == "" {
		b.pieces = b.pieces[1:]
	}
	return n, nil
}

// The part of a body that has arrived is sent together with the head. A body that must be awaited
// does not delay the head.
func TestFirstPieceIsSentWithHead(t *testing.T) {
	fcgi := func(text string) string { return string(wire.AppendStream(nil, wire.Stdin, 1, []byte(text))) }
	end := string(wire.AppendStreamEnd(nil, wire.Stdin, 1))
	for name, test := range map[string]struct {
		isFastCGI bool
		arrived   int
		length    int64
		want      []string // ends of writes
	}{
		"length":         {false, 1, 5, []string{"\r\n\r\nab", "cde"}},
		"chunks":         {false, 1, -1, []string{"\r\n\r\n2\r\nab\r\n", "3\r\ncde\r\n", "0\r\n\r\n"}},
		"whole":          {false, 3, -1, []string{"\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"}},
		"awaited":        {false, 0, 5, []string{"\r\n\r\n", "ab", "cde"}},
		"fastcgi":        {true, 1, 5, []string{fcgi("ab"), fcgi("cde") + end}},
		"fastcgi, later": {true, 0, 5, []string{"", fcgi("ab"), fcgi("cde") + end}},
	} {
		nc := &pieceConn{lastWrite: test.want[len(test.want)-1]}
		nc.wake.L, nc.piece, nc.text = &nc.mu, 1000, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
		send := New(dialing(nc)).RoundTrip
		if test.isFastCGI {
			send = func(r *http.Request) (*http.Response, error) {
				return newFastCGIOf(dialing(nc)).Do(r, &Call{StreamBody: true})
			}
			head := wire.AppendStream(nil, wire.Stdout, 1, []byte("Status: 200\n\n"))
			nc.text = string(wire.AppendEnd(head, 1, wire.End{}))
		}
		r := request(t, http.MethodPost, "http://host:9000/", &arriving{pieces: []string{"ab", "cde"}, arrived: test.arrived})
		r.ContentLength = test.length
		resp, err := send(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		resp.Body.Close()
		ok := len(nc.writes) == len(test.want)
		for i := 0; ok && i < len(test.want); i++ {
			ok = strings.HasSuffix(nc.writes[i], test.want[i])
		}
		if !ok {
			t.Errorf("%s: %q", name, nc.writes)
		}
	}
}

// The end of a body may arrive after its last byte, such as END_STREAM of HTTP/2. Neither the head
// nor the bytes wait for it.
func TestFirstPieceDoesNotAwaitEnd(t *testing.T) {
	nc := &pieceConn{lastWrite: "abcde"}
	nc.wake.L, nc.piece, nc.text = &nc.mu, 1000, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	r := request(t, http.MethodPost, "http://host/", &endingLate{arriving{pieces: []string{"abcde"}, arrived: 1}, nc})
	r.ContentLength = 5
	resp := testkit.Value(New(dialing(nc)).RoundTrip(r))(t)
	resp.Body.Close()
}

// endingLate is a body whose end arrives once its bytes were sent.
type endingLate struct {
	arriving
	sent *pieceConn
}

func (b *endingLate) Read(p []byte) (int, error) {
	if len(b.pieces) == 0 {
		b.sent.mu.Lock()
		defer b.sent.mu.Unlock()
		for !strings.Contains(strings.Join(b.sent.writes, ""), "abcde") {
			b.sent.wake.Wait()
		}
	}
	return b.arriving.Read(p)
}

// A body whose first piece is its last leaves the connection for the next request, and one that
// fails is not sent at all.
func TestWholeAndFailingFirstPiece(t *testing.T) {
	nc := &pieceConn{lastWrite: "ab"}
	nc.wake.L, nc.piece = &nc.mu, 38
	nc.text = strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 2)
	dials := 0
	config := dialing(nc)
	config.Settings.DialContext = func(context.Context, string, string) (net.Conn, error) { dials++; return nc, nil }
	c := New(config)
	for range 2 {
		r := request(t, http.MethodPost, "http://host/", &lastPiece{arriving{pieces: []string{"ab"}, arrived: 1}})
		r.ContentLength = 2
		resp := testkit.Value(c.RoundTrip(r))(t)
		resp.Body.Close()
	}
	testkit.Equal(t, dials, 1, "dials")
	testkit.Equal(t, len(nc.writes), 2, "writes")
	failure := errors.New("failure")
	r := request(t, http.MethodPost, "http://host/", &arriving{arrived: 1, err: failure})
	r.ContentLength = 2
	testkit.FailsWith(c.RoundTrip(r))(t, failure)
	testkit.Equal(t, len(nc.writes), 2, "writes")
}

// lastPiece is a body that returns io.EOF together with its last bytes.
type lastPiece struct{ arriving }

func (b *lastPiece) Read(p []byte) (int, error) {
	n, err := b.arriving.Read(p)
	if len(b.pieces) == 0 {
		err = io.EOF
	}
	return n, err
}
