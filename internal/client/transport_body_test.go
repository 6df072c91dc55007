package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// The end of a chunked body comes with its last data, if it has arrived.
func TestTransportReturnsEndWithLastData(t *testing.T) {
	p := newPeer(t, "tcp")
	next := make(chan bool)
	p.runScript(func(_ int, c *scripted) {
		c.respond("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n")
		<-next
		c.writeText("2\nhe\n3\nllo\n0\nA: b\n\n")
		<-next
	})
	resp, err := p.tr.RoundTrip(mustRequest("GET", p.url, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer close(next)
	next <- true
	b := make([]byte, len("hello"))
	n, err := resp.Body.Read(b)
	if string(b[:n]) != "hello" || !errors.Is(err, io.EOF) || resp.Trailer.Get("A") != "b" {
		t.Errorf("%q, %v, trailer %v", b[:n], err, resp.Trailer)
	}
}

// A whole response that arrives early does not cut the body off. If the body is late, that costs
// only the connection.
func TestTransportSendsBodyAfterWholeResponse(t *testing.T) {
	overAll(t, func(p *peer) {
		got := make(chan string, 2)
		p.runScript(func(n int, c *scripted) {
			for {
				r, err := http.ReadRequest(c.r)
				if err != nil {
					return
				}
				c.writeText(okHello)
				b, err := io.ReadAll(r.Body)
				got <- fmt.Sprintf("%s %v", b, err)
			}
		})
		for _, late := range []bool{false, false, true} {
			body, feed := io.Pipe()
			resp, err := p.tr.RoundTrip(mustRequest("POST", p.url, body))
			if err != nil {
				p.Fatal(err)
			}
			io.WriteString(feed, "body")
			want := "body <nil>"
			if late {
				want = "body unexpected EOF"
			} else {
				feed.Close()
			}
			if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hello" {
				p.Errorf("%q, %v", b, err)
			}
			if text := <-got; text != want {
				p.Errorf("the server got %q, want %q", text, want)
			}
			idle := 1
			if late {
				idle = 0
			}
			testkit.WaitFor(p.T, "the connection", func() bool {
				n := countOf(p.tr)
				return n.Idle == idle && n.Active == 0
			})
			feed.Close()
		}
	})
}

// The response of a server that rejects a body and closes the connection is received.
func TestTransportReceivesResponseToRejectedBody(t *testing.T) {
	overAll(t, func(p *peer) {
		p.runScript(func(n int, c *scripted) {
			if _, err := http.ReadRequest(c.r); err == nil {
				c.writeText("HTTP/1.1 413 Too Large\nContent-Length: 2\nConnection: close\n\nno")
				if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
					half.CloseWrite()
				}
				io.CopyN(io.Discard, c.r, 1<<20) // a part of it
			}
		})
		r, _ := http.NewRequest("POST", p.url, io.LimitReader(zeros{}, 64<<20))
		resp, text, err := p.send(r)
		if err != nil || resp.StatusCode != 413 || text != "no" {
			p.Errorf("%v, %q", err, text)
		}
		testkit.WaitFor(p.T, "the connection to be closed",
			func() bool { return countOf(p.tr) == countOf(new(tare.Transport)) })
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A file is sent from its current offset. If it is shorter or longer than ContentLength, the
// request fails, and the server does not take the body for complete.
func TestTransportSendsFiles(t *testing.T) {
	const skipped, size = 100, 500_000
	content := make([]byte, skipped+size)
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	overAll(t, func(p *peer) {
		got := make(chan string, 1)
		p.serve(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			got <- fmt.Sprint(bytes.Equal(b, content[skipped:]), " ", len(b) == size, " ", err == nil)
		})
		for length, want := range map[int64]string{size: "true true true", size + 1: "", size - 1: ""} {
			f, err := os.Open(name)
			if err == nil {
				_, err = f.Seek(skipped, io.SeekStart)
			}
			if err != nil {
				p.Fatal(err)
			}
			r := mustRequest("PUT", p.url, f)
			r.ContentLength = length
			_, _, err = p.send(r)
			if whole := <-got; want != "" && (whole != want || err != nil) ||
				want == "" && strings.HasSuffix(whole, "true") {
				p.Errorf("%d bytes announced: the server got %s, %v", length, whole, err)
			}
			if want == "" {
				checkError(p.T, err, fmt.Sprintf("ContentLength=%d with Body length", length))
			}
			testkit.WaitFor(p.T, "the file to be closed",
				func() bool { _, err := f.Stat(); return errors.Is(err, os.ErrClosed) })
		}
	})
}

// A body that waits for 100 Continue is sent after that response, or after the timeout, or never.
func TestTransportBodyWaitsForContinue(t *testing.T) {
	for _, test := range []struct {
		responses []string // before the body was read, and after
		want      string   // what the server received
	}{
		{[]string{"HTTP/1.1 100 Continue\n\n", okHello}, "body"},
		{[]string{"", okHello}, "body"},
		{[]string{"HTTP/1.1 401 No\nContent-Length: 5\n\nhello"}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			nw := new(testkit.Network)
			tr := &tare.Transport{ExpectContinueTimeout: time.Second,
				DialContext: func(context.Context, string, string) (net.Conn, error) { return nw.Dial() }}
			got := make(chan string, 1)
			go func() {
				c, _ := nw.Listen().Accept()
				defer c.Close()
				br := bufio.NewReader(c)
				r, _ := http.ReadRequest(br)
				io.WriteString(c, strings.ReplaceAll(test.responses[0], "\n", "\r\n"))
				b, _ := io.ReadAll(r.Body)
				if len(test.responses) > 1 {
					io.WriteString(c, strings.ReplaceAll(test.responses[1], "\n", "\r\n"))
				}
				got <- string(b)
			}()
			r, _ := http.NewRequest("PUT", "http://host/", strings.NewReader("body"))
			r.Header.Set("Expect", "100-continue")
			began := time.Now()
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			if waited := time.Since(began) > 0; string(b) != "hello" || waited != (test.responses[0] == "") {
				t.Errorf("%q after %v", b, time.Since(began))
			}
			if body := <-got; body != test.want {
				t.Errorf("the server got %q", body)
			}
			tr.CloseIdleConnections()
		})
	}
}
