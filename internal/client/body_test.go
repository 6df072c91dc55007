package client

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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
	c.awaitWrite()
	return c.scriptedConn.Read(p)
}

// awaitWrite waits until the request is complete.
func (c *pieceConn) awaitWrite() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.writes) == 0 || !strings.HasSuffix(strings.Join(c.writes, ""), c.lastWrite) {
		c.wake.Wait()
	}
}

// arriving is a body whose pieces arrive one after another.
type arriving struct {
	pieces   []string
	arrived  int    // number of Reads that return at once
	err      error  // at the end; nil is io.EOF
	isJoined bool   // the end comes with the last piece
	awaitEnd func() // waits for the end, unless it is nil
}

func (b *arriving) HasInput() bool { return b.arrived > 0 }
func (b *arriving) Close() error   { return nil }

func (b *arriving) Read(p []byte) (n int, err error) {
	b.arrived--
	if len(b.pieces) > 0 {
		n = copy(p, b.pieces[0])
		if b.pieces[0] = b.pieces[0][n:]; b.pieces[0] == "" {
			b.pieces = b.pieces[1:]
		}
	} else if b.awaitEnd != nil {
		b.awaitEnd()
	}
	if len(b.pieces) == 0 && (n == 0 || b.isJoined) {
		err = cmp.Or(b.err, io.EOF)
	}
	return n, err
}

// The part of a body that has arrived is sent together with the head. Neither a body that must be
// awaited nor its end delays the head: END_STREAM of HTTP/2 may arrive after the last byte.
func TestFirstPieceIsSentWithHead(t *testing.T) {
	fcgi := func(text string) string { return string(wire.AppendStream(nil, wire.Stdin, 1, []byte(text))) }
	end := string(wire.AppendStreamEnd(nil, wire.Stdin, 1))
	for name, test := range map[string]struct {
		isFastCGI bool
		arrived   int
		length    int64
		isJoined  bool
		want      []string // ends of writes
	}{
		"length":         {false, 1, 5, false, []string{"\r\n\r\nab", "cde"}},
		"chunks":         {false, 1, -1, false, []string{"\r\n\r\n2\r\nab\r\n", "3\r\ncde\r\n", "0\r\n\r\n"}},
		"whole":          {false, 3, -1, false, []string{"\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"}},
		"whole, length":  {false, 2, 5, true, []string{"\r\n\r\nabcde"}},
		"end is awaited": {false, 2, 5, false, []string{"\r\n\r\nabcde"}},
		"awaited":        {false, 0, 5, false, []string{"\r\n\r\n", "ab", "cde"}},
		"fastcgi":        {true, 1, 5, false, []string{fcgi("ab"), fcgi("cde") + end}},
		"fastcgi, later": {true, 0, 5, false, []string{"", fcgi("ab"), fcgi("cde") + end}},
	} {
		nc := &pieceConn{lastWrite: test.want[len(test.want)-1]}
		nc.wake.L, nc.piece, nc.text = &nc.mu, 38, strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 2)
		c := New(dialing(nc))
		if test.isFastCGI {
			c = newFastCGIOf(dialing(nc))
			head := wire.AppendStream(nil, wire.Stdout, 1, []byte("Status: 200\n\n"))
			nc.text, nc.piece = string(wire.AppendEnd(head, 1, wire.End{})), 0
		}
		body := &arriving{pieces: []string{"ab", "cde"}, arrived: test.arrived, isJoined: test.isJoined}
		if name == "end is awaited" {
			body.awaitEnd = nc.awaitWrite
		}
		r := request(t, http.MethodPost, "http://host:9000/", body)
		r.ContentLength = test.length
		if _, _, err := sendCall(c, r, &Call{StreamBody: true}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if nc.mu.Lock(); body.awaitEnd != nil {
			nc.writes = nc.writes[:1] // the end may follow
		}
		testkit.Equal(t, slices.EqualFunc(nc.writes, test.want, strings.HasSuffix), true, name, nc.writes)
		nc.mu.Unlock()
		if test.isJoined { // nothing is left to send, so the connection serves the next request
			testkit.Equal(t, c.Count().Idle, 1, name, "idle connections")
		}
	}
	failure := errors.New("failure") // then nothing is sent
	nc := &pieceConn{}
	r := request(t, http.MethodPost, "http://host/", &arriving{arrived: 1, err: failure})
	r.ContentLength = 2
	testkit.FailsWith(New(dialing(nc)).RoundTrip(r))(t, failure)
	testkit.Equal(t, len(nc.writes), 0, "writes")
}

// BenchmarkFileBody sends a file: by the kernel, and through a reader of another type.
func BenchmarkFileBody(b *testing.B) {
	for _, size := range []int64{256 << 10, 10 << 20} {
		name := filepath.Join(b.TempDir(), "file")
		testkit.Must(b, os.WriteFile(name, make([]byte, size), 0o600))
		for _, how := range []string{"file", "reader"} {
			b.Run(fmt.Sprintf("%s-%dKB", how, size>>10), func(b *testing.B) {
				to := testkit.ServeTCP(b, func(c net.Conn) { discard(c, size) })
				c := New(&Config{})
				defer c.CloseIdleConnections()
				b.SetBytes(size)
				for b.Loop() {
					f := testkit.Value(os.Open(name))(b)
					r := testkit.Value(http.NewRequest(http.MethodPut, "http://"+to, f))(b)
					if r.ContentLength = size; how == "reader" {
						r.Body = struct{ io.ReadCloser }{f}
					}
					resp := testkit.Value(c.RoundTrip(r))(b)
					_ = resp.Body.Close()
				}
			})
		}
	}
}

// discard responds to requests of a given size, and ignores their content.
func discard(c net.Conn, size int64) {
	for br := bufio.NewReaderSize(c, 64<<10); ; {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, br, size); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}
