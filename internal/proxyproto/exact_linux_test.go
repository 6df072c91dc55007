package proxyproto

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// accepted returns a connection that begins with a header, and its client.
func accepted(t *testing.T, broken func(net.Addr, error)) (c *Conn, client net.Conn) {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	client = testkit.Value(net.Dial("tcp", l.Addr().String()))(t)
	nc := testkit.Value(Listener{Listener: l, Broken: broken}.Accept())(t)
	t.Cleanup(func() { nc.Close(); client.Close() })
	return nc.(*Conn), client
}

// Socket leaves what follows the header in the socket, however it arrives.
func TestSocketTakesTheHeaderOnly(t *testing.T) {
	for _, header := range []string{"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n", v2(0x21, 0x11, fourAddrs)} {
		text := header + "hello"
		for at := 1; at <= len(text); at++ {
			c, client := accepted(t, nil)
			io.WriteString(client, text[:at])
			go func() { // Socket may have looked at the first piece, or not
				io.WriteString(client, text[at:])
				client.Close()
			}()
			beneath, _, err := c.Socket(t.Context(), time.Now().Add(time.Minute))
			if err != nil || beneath != c.Conn {
				t.Fatalf("split at %d: %T, %v", at, beneath, err)
			}
			testkit.Reads(t, beneath, "hello", "split at", at)
			if !c.Header.Source.IsValid() {
				t.Errorf("split at %d: no address", at)
			}
			c.Close()
		}
	}
}

func TestSocketReportsInvalidHeaders(t *testing.T) {
	for text, want := range map[string]error{"GET / HTTP/1.0\r\n\r\n": errBroken, "PROXY TCP4": io.ErrUnexpectedEOF,
		"": io.EOF} {
		var reported error
		c, client := accepted(t, func(_ net.Addr, err error) { reported = err })
		io.WriteString(client, text)
		client.(*net.TCPConn).CloseWrite()
		if _, _, err := c.Socket(t.Context(), time.Now().Add(time.Minute)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
		testkit.Equal(t, reported == nil, text == "", text)
		c.Close()
		testkit.FailsWith(client.Read(make([]byte, 1)))(t, io.EOF, "not a reset, after", text)
	}
}

func TestSocketEndsAtItsDeadlineAndAtClose(t *testing.T) {
	c, client := accepted(t, nil)
	io.WriteString(client, "PROXY")
	soon := time.Now().Add(10 * time.Millisecond)
	if _, _, err := c.Socket(t.Context(), soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	c, _ = accepted(t, nil)
	time.AfterFunc(10*time.Millisecond, func() { c.Close() })
	if _, _, err := c.Socket(t.Context(), time.Now().Add(time.Minute)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// A connection that is no socket keeps its bytes for Read.
func TestSocketLeavesOtherConnectionsToRead(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = io.WriteString(theirs, "PROXY UNKNOWN\r\nhello")
		theirs.Close()
	}()
	c := &Conn{Conn: ours, listener: new(Listener)}
	if same, _, err := c.Socket(t.Context(), time.Now()); same != c || err != nil {
		t.Errorf("%T, %v", same, err)
	}
	testkit.Reads(t, c, "hello")
}
