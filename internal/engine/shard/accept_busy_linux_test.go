package shard

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

const (
	bodySize   = 4 << 20 // more than sockets hold
	busyRounds = 30
)

// busyHandler serves the paths of TestConnectionsAcceptedByBusyLoopWork. left receives a value for
// each canceled context.
func busyHandler(left chan<- bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/body":
			b, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %v", b, err)
		case "/large":
			w.Write(make([]byte, bodySize))
		case "/leave":
			<-r.Context().Done()
			left <- true
		case "/hijack":
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			line, _ := rw.ReadString('\n')
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(line), line)
			c.Close()
		default:
			io.WriteString(w, "done")
		}
	}
}

// A loop reads from a connection that it has accepted before epoll reports that. Events of further
// input, of its end, and of room for output still come.
func TestConnectionsAcceptedByBusyLoopWork(t *testing.T) {
	testkit.Long(t, "it takes seconds")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	left := make(chan bool, 1)
	s := serveOn(t, tcpListener(t), busyHandler(left))
	stop := make(chan bool)
	var load sync.WaitGroup
	defer func() { close(stop); load.Wait() }()
	for range 8 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, _, err := s.try()
				if err != nil {
					t.Error(err)
					return
				}
				c.(*net.TCPConn).SetLinger(0)
				c.Close()
			}
		})
	}
	s.reachShards()
	const host = " HTTP/1.1\r\nHost: a\r\n"
	for name, test := range map[string]struct {
		pieces []string // sent with pauses between them
		want   int      // responses
		body   string   // of the last
	}{
		"request":     {[]string{"GET /" + host + "\r\n"}, 1, "done"},
		"late":        {[]string{"", "GET /" + host + "\r\n"}, 1, "done"},
		"two pieces":  {[]string{"GET /" + host, "\r\n"}, 1, "done"},
		"kept":        {[]string{"GET /" + host + "\r\n", "GET /" + host + "\r\n"}, 2, "done"},
		"pipelined":   {[]string{"GET /" + host + "\r\nGET /" + host + "\r\nGET /" + host, "\r\n"}, 3, "done"},
		"late body":   {[]string{"POST /body" + host + "Content-Length: 5\r\n\r\nhe", "llo"}, 1, "hello <nil>"},
		"large":       {[]string{"GET /large" + host + "\r\n", ""}, 1, strings.Repeat("\x00", bodySize)},
		"hijacked":    {[]string{"GET /hijack" + host + "\r\n", "line\n"}, 1, "line\n"},
		"closed side": {[]string{"GET /" + host + "\r\n", "close", "end"}, 1, "done"},
		"left":        {[]string{"GET /leave" + host + "\r\n", "leave"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for range busyRounds {
				s.exchange(t, left, test.pieces, test.want, test.body)
			}
		})
	}
}

// exchange sends pieces on a new connection, and expects responses.
func (s *site) exchange(t *testing.T, left <-chan bool, pieces []string, want int, body string) {
	t.Helper()
	c, err := net.Dial("tcp", s.listener.Addr().String())
	testkit.Must(t, err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(c)
	atEnd := false
	for i, piece := range pieces {
		if i > 0 {
			time.Sleep(3 * time.Millisecond)
		}
		switch piece {
		case "close":
			c.(*net.TCPConn).CloseWrite()
		case "end":
			atEnd = true
		case "leave":
			c.Close()
			select {
			case <-left:
			case <-time.After(time.Minute):
				t.Fatal("the context is not canceled")
			}
		default:
			io.WriteString(c, piece)
		}
	}
	for i := range want {
		resp, err := http.ReadResponse(in, nil)
		testkit.Must(t, err)
		got, err := io.ReadAll(resp.Body)
		if i == want-1 && (string(got) != body || err != nil) {
			t.Fatalf("%d bytes, %v; want %d", len(got), err, len(body))
		}
	}
	if atEnd {
		if n, err := in.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Fatalf("%d, %v after the end", n, err)
		}
	}
}
