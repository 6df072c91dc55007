package shard

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/tarehq/tare/internal/engine/sched"
	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

// A shard whose connections are all busy, while another shard's are idle, gives half of them away.
func TestBusyConnectionsOfOneShardAreSpread(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, _ *http.Request) {
		for start := time.Now(); time.Since(start) < 50*time.Microsecond; {
		}
		_, _ = io.WriteString(w, "done")
	}, onLoop)
	clients := make(map[string]*client) // by address
	for range 32 {
		c := newClient(t, s.listener)
		c.get(t)
		clients[c.LocalAddr().String()] = c
	}
	g := s.server.group
	first := g.allShards()[0]
	onFirst := connsOn(g, first)
	testkit.Between(t, len(onFirst), len(clients)/4, len(clients), "connections on the first shard")
	for addr := range onFirst {
		defer s.keepBusy(1, func() { clients[addr].get(t) })()
	}
	testkit.WaitFor(t, "busy connections of one shard to spread", func() bool {
		left := connsOn(g, first)
		maps.DeleteFunc(left, func(addr string, _ bool) bool { return !onFirst[addr] })
		return len(left) <= len(onFirst)*3/4
	})
}

// connsOn returns the client addresses of the connections on a shard.
func connsOn(g *Group, s *shard) map[string]bool {
	found := make(map[string]bool)
	g.conns.each(func(k *shardConn) {
		if k.shard() == s {
			found[k.remote] = true
		}
	})
	return found
}

func TestOnlyOverloadedShardIsRelieved(t *testing.T) {
	for _, c := range []struct {
		name     string
		busy     [2]time.Duration // how long a turn of each shard takes, which may not have ended
		elapsed  time.Duration
		relieved bool
	}{
		{"one busy and one idle", [2]time.Duration{balanceInterval, 0}, balanceInterval, true},
		{"one in a turn", [2]time.Duration{2 * balanceInterval, 0}, balanceInterval, true},
		{"both busy", [2]time.Duration{balanceInterval, balanceInterval * 9 / 10}, balanceInterval, false},
		{"none overloaded", [2]time.Duration{balanceInterval * 8 / 10, 0}, balanceInterval, false},
		{"the guard slept", [2]time.Duration{time.Second, 0}, time.Second, false},
	} {
		epoch := time.Now()
		g := &Group{epoch: epoch}
		shards := []*shard{{group: g}, {group: g}}
		g.shards.Store(&shardList{shards, 2})
		g.balance(epoch.Add(time.Minute)) // the first interval
		began := time.Minute + balanceInterval
		g.balance(epoch.Add(began))
		for i, busy := range c.busy {
			l := &shards[i].load
			if l.beginTurn(instant(began)); busy <= c.elapsed {
				l.endTurn(instant(began + busy))
			}
		}
		g.balance(epoch.Add(began + c.elapsed))
		testkit.Equal(t, shards[0].load.relief.Load() == shards[1], c.relieved, c.name)
	}
}

// Of the connections that have events at once, every other one moves. A single one does not, nor
// does one that the loop's leader does not serve.
func TestEveryOtherConnectionMoves(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s := newTestServer(t, nil, nil, nil)
	defer s.Close()
	fd, _ := testkit.SocketPair(t)
	k := s.placeConn(s.group.allShards()[0], fd)
	testkit.Must(t, k.addToLoop())
	from, to := k.shard(), s.group.allShards()[1]
	r := &runner{shard: &shard{}}
	r.shard.load.relief.Store(to)
	r.leader.Follow(sched.New().NewLead(func() {}))
	for _, test := range []struct {
		serving, isDelayed bool
		eventsLeft, sent   int
		moves              bool
	}{
		{false, false, 1, 0, false},
		{true, false, 0, 0, false},
		{true, false, 1, 0, true},
		{true, false, 2, 0, false},
		{true, true, 0, 1, false},
		{true, true, 0, 2, true},
	} {
		if r.eventsLeft, r.shard.outbox.sent = test.eventsLeft, test.sent; test.serving {
			r.leader.Begin()
		}
		if !k.state.move(stateWaiting, stateServed) || !r.leave(k, test.isDelayed) {
			t.Fatal("the connection does not wait")
		}
		testkit.Equal(t, k.shard() == to, test.moves, test)
		k.moveTo(from)
	}
}

// A connection stays where it is if another loop cannot report it.
func TestConnectionThatCannotMoveIsStillServed(t *testing.T) {
	s := serveOn(t, tcpListener(t), nil)
	c := s.connect()
	broken := testkit.Value(poll.NewLoop())(t)
	testkit.Must(t, broken.Close())
	var k *shardConn
	s.server.group.conns.each(func(found *shardConn) { k = found })
	testkit.WaitFor(t, "the connection to wait", func() bool { return k.state.move(stateWaiting, stateServed) })
	before := k.shard()
	testkit.Equal(t, k.moveTo(&shard{group: s.server.group, loop: broken}), true)
	testkit.Equal(t, k.shard(), before, "the shard of a connection that another loop cannot report")
	unled := testkit.Value(newShard(s.server.group, 0))(t)
	defer time.AfterFunc(10*time.Second, unled.stop).Stop()
	k.session.Store(new(shardSession))
	testkit.Equal(t, k.moveTo(unled), true)
	events, _, _ := unled.loop.Wait()
	testkit.Equal(t, len(events) == 1 && events[0].Writable, true, "the loop reports room, for which a session may wait")
	k.session.Store(nil)
	k.moveTo(before)
	testkit.Equal(t, k.park(), true, "no event was recorded")
	testkit.Value(request(c))(t)
}

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
		testkit.Must(t, err)
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
