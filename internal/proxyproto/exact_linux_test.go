package proxyproto

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// accepted returns a connection that begins with a header, and its client.
func accepted(t *testing.T, broken func(net.Addr, error)) (c *Conn, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	nc, err := Listener{l, broken}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close(); client.Close() })
	return nc.(*Conn), client
}

// ReadHeader leaves what follows the header in the socket, however it arrives.
func TestReadHeaderTakesTheHeaderOnly(t *testing.T) {
	for _, header := range []string{"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n", v2(0x21, 0x11, fourAddrs)} {
		text := header + "hello"
		for at := 1; at <= len(text); at++ {
			c, client := accepted(t, nil)
			io.WriteString(client, text[:at])
			go func() { // ReadHeader may have looked at the first piece, or not
				io.WriteString(client, text[at:])
				client.Close()
			}()
			if err := c.ReadHeader(time.Now().Add(time.Minute)); err != nil {
				t.Fatalf("split at %d: %v", at, err)
			}
			c.ReplaceConn(func(beneath net.Conn) net.Conn {
				if b, err := io.ReadAll(beneath); string(b) != "hello" || err != nil {
					t.Errorf("split at %d: %q is left, %v", at, b, err)
				}
				return beneath
			})
			if !c.Header.Source.IsValid() {
				t.Errorf("split at %d: no address", at)
			}
			c.Close()
		}
	}
}

func TestReadHeaderReportsInvalidHeaders(t *testing.T) {
	for text, want := range map[string]error{"GET / HTTP/1.0\r\n\r\n": errBroken, "PROXY TCP4": io.ErrUnexpectedEOF,
		"": io.EOF} {
		var reported error
		c, client := accepted(t, func(_ net.Addr, err error) { reported = err })
		io.WriteString(client, text)
		client.(*net.TCPConn).CloseWrite()
		if err := c.ReadHeader(time.Now().Add(time.Minute)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
		if (reported == nil) != (text == "") {
			t.Errorf("%q: reported %v", text, reported)
		}
		c.Close()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%q: the client gets %v, want the end without a reset", text, err)
		}
	}
}

func TestReadHeaderEndsAtItsDeadlineAndAtClose(t *testing.T) {
	c, client := accepted(t, nil)
	io.WriteString(client, "PROXY")
	if err := c.ReadHeader(time.Now().Add(10 * time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	c, _ = accepted(t, nil)
	time.AfterFunc(10*time.Millisecond, func() { c.Close() })
	if err := c.ReadHeader(time.Now().Add(time.Minute)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// A connection that is no socket keeps its bytes for Read.
func TestReadHeaderLeavesOtherConnectionsToRead(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = io.WriteString(theirs, "PROXY UNKNOWN\r\nhello")
		theirs.Close()
	}()
	c := &Conn{Conn: ours}
	if err := c.ReadHeader(time.Now()); err != nil {
		t.Error(err)
	}
	c.ReplaceConn(func(net.Conn) net.Conn {
		t.Error("the connection beneath is replaced")
		return nil
	})
	if b, err := io.ReadAll(c); string(b) != "hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
