package shard

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

const lastRequest = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

// What a client sends after its last request makes the kernel reset the connection. The client has
// the response nevertheless.
func TestLastResponseArrivesBeforeReset(t *testing.T) {
	var c net.Conn
	s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, r *http.Request) {
		if r.Close {
			io.WriteString(c, "unread") // has arrived when WriteString returns
		}
		io.WriteString(w, "last")
	})
	s.reachShards()
	for range 20 {
		c, _ = s.connect()
		if _, err := io.WriteString(c, lastRequest); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		testkit.Must(t, err)
		if b, err := io.ReadAll(resp.Body); string(b) != "last" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
	}
}

// A last response that the socket has no room for is sent as the client reads.
func TestLargeLastResponseIsComplete(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 32<<20)
	s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, r *http.Request) {
		if r.Close {
			w.Write(body)
		}
	})
	s.reachShards()
	c, _ := s.connect()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, lastRequest); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	testkit.Must(t, err)
	if n, err := io.Copy(io.Discard, resp.Body); n != int64(len(body)) || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the response: %v", err)
	}
}
