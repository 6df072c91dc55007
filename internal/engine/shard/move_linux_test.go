package shard

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/tarehq/tare/internal/testkit"
)

const (
	bodySize   = 4 << 20 // more than sockets hold
	busyRounds = 10
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
	defer s.keepBusy(8, func() {
		c, _, err := s.try()
		if err != nil {
			t.Error(err)
			return
		}
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	})()
	s.reachShards()
	for name, test := range exchangeCases {
		t.Run(name, func(t *testing.T) {
			for range busyRounds {
				s.exchange(t, left, test)
			}
		})
	}
}

const (
	firstRequest = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	hostLine     = " HTTP/1.1\r\nHost: a\r\n"
)

// exchangeCase is what a client sends, and what it receives.
type exchangeCase struct {
	pieces []string // sent with pauses between them
	want   int      // responses
	body   string   // of the last
}

var exchangeCases = map[string]exchangeCase{
	"request":    {[]string{firstRequest}, 1, "done"},
	"late":       {[]string{"", firstRequest}, 1, "done"},
	"two pieces": {[]string{"GET /" + hostLine, "\r\n"}, 1, "done"},
	"kept":       {[]string{firstRequest, firstRequest, firstRequest}, 3, "done"},
	"pipelined":  {[]string{firstRequest + firstRequest + "GET /" + hostLine, "\r\n"}, 3, "done"},
	"late body":  {[]string{"POST /body" + hostLine + "Content-Length: 5\r\n\r\nhe", "l", "lo"}, 1, "hello <nil>"},
	"large": {[]string{"GET /large" + hostLine + "\r\n", "GET /large" + hostLine + "\r\n"}, 2,
		strings.Repeat("\x00", bodySize)},
	"hijacked":    {[]string{"GET /hijack" + hostLine + "\r\n", "line\n"}, 1, "line\n"},
	"closed side": {[]string{firstRequest, "close", "end"}, 1, "done"},
	"left":        {[]string{"GET /leave" + hostLine + "\r\n", "leave"}, 0, ""},
}

// exchange sends the pieces of a case on a new connection, and expects responses.
func (s *site) exchange(t *testing.T, left <-chan bool, test exchangeCase) {
	t.Helper()
	c := newClient(t, s.listener)
	defer c.Close()
	atEnd := false
	for i, piece := range test.pieces {
		if i > 0 {
			time.Sleep(3 * time.Millisecond)
		}
		switch piece {
		case "close":
			c.CloseWrite()
		case "end":
			atEnd = true
		case "leave":
			c.Close()
			<-left
		default:
			io.WriteString(c, piece)
		}
	}
	for i := range test.want {
		got := testkit.Value(c.response())(t)
		if i == test.want-1 && got != test.body {
			t.Fatalf("%d bytes; want %d", len(got), len(test.body))
		}
	}
	if atEnd {
		_, err := c.in.ReadByte()
		testkit.Is(t, err, io.EOF)
	}
}

// Connections that move between loops all the time work as others do.
func TestConnectionsWorkWhileTheyMove(t *testing.T) {
	testkit.Long(t, "it transfers much")
	const rounds = 4
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	left := make(chan bool, 1)
	s := serveOn(t, tcpListener(t), busyHandler(left))
	s.connect()
	i := 0
	defer s.keepBusy(1, func() { // asks each shard to move connections to another one
		shards := s.server.group.allShards()
		shards[i%len(shards)].load.relief.Store(shards[(i+1+i/7%2)%len(shards)])
		i++
		time.Sleep(10 * time.Microsecond)
	})()
	for range 12 {
		c := newClient(t, s.listener)
		defer s.keepBusy(1, func() { c.get(t) })()
	}
	var tests sync.WaitGroup
	for name, test := range exchangeCases {
		if test.pieces = append([]string{firstRequest}, test.pieces...); test.want > 0 {
			test.want++
		}
		tests.Go(func() {
			t.Run(name, func(t *testing.T) {
				for range rounds {
					s.exchange(t, left, test)
				}
			})
		})
	}
	tests.Wait()
}

// A waiting connection exactly fills a size class of the allocator.
func TestShardConnFillsItsSizeClass(t *testing.T) {
	testkit.Between(t, unsafe.Sizeof(shardConn{}), 1, 144)
}
