package shard

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/sched"
	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// outboxSite is a site with one loop, which runs all handlers. A handler of it sends requests on
// several connections, whose events the loop then reports together.
type outboxSite struct {
	*site
	send, then atomic.Pointer[func()] // what the handlers of /send and /then do
}

func newOutboxSite(t *testing.T, apply ...func(*Config)) *outboxSite {
	procs := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	s := new(outboxSite)
	s.site = serveOn(t, tcpListener(t), func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/send":
			(*s.send.Load())()
		case "/then":
			(*s.then.Load())()
		case "/where":
			s.server.group.conns.each(func(k *shardConn) {
				if k.remote == r.RemoteAddr {
					fmt.Fprint(w, "leads: ", k.servedBy.Leads(), " ")
				}
			})
		case "/limited":
			w.(connection.SendTimer).SetSendTimeout(10 * time.Millisecond)
			fallthrough
		case "/large":
			w.Write(bytes.Repeat([]byte("x"), outboxMax/2))
		}
		io.WriteString(w, r.URL.Path)
	}, append(apply, onLoop)...)
	return s
}

func (c *client) hasResponse() bool {
	n := 0
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { n, _ = poll.Unread(int(fd)) })
	}
	return n > 0 && err == nil
}

// A conn serves connections of several shards. A shard whose handler stalls has its responses sent
// by another runner, which may find a conn that a connection of another shard has by now: what it
// sends is not sent again.
func TestPipelinedResponsesAreSentOnceBesideStalls(t *testing.T) {
	t.Cleanup(func(procs int) func() { return func() { runtime.GOMAXPROCS(procs) } }(runtime.GOMAXPROCS(4)))
	s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, r *http.Request) {
		switch began := time.Now(); r.URL.Path {
		case "/stall":
			time.Sleep(3 * time.Millisecond)
		case "/1":
			for time.Since(began) < 200*time.Microsecond {
			}
		}
		io.WriteString(w, r.URL.Path)
	}, onLoop)
	var clients sync.WaitGroup
	for i := range 24 {
		c, paths := s.connect(), []string{"/0", "/1", "/2"}[:2+i%2]
		if i < 4 {
			paths = []string{"/stall"}
		}
		clients.Go(func() {
			for range 200 {
				io.WriteString(c, "GET "+strings.Join(paths, " HTTP/1.1\r\nHost: a\r\n\r\nGET ")+
					" HTTP/1.1\r\nHost: a\r\n\r\n")
				for _, path := range paths {
					c.want(t, path)
				}
			}
		})
	}
	clients.Wait()
}

// turn sends requests in a handler, so that the loop reports them together.
func (s *outboxSite) turn(by *client, send func()) {
	s.Helper()
	s.send.Store(&send)
	by.request("/send", "")
	by.want(s, "/send")
}

// Responses of a turn wait for each other, and then all arrive.
func TestResponsesOfTurnLeaveTogether(t *testing.T) {
	const conns = 3*outboxConns + 1
	s := newOutboxSite(t)
	sender := s.connect()
	for _, fields := range []string{"", "Connection: close\r\n"} {
		var waited atomic.Int32
		testkit.WaitFor(t, "responses to wait for other requests", func() bool {
			var all [conns]*client
			for i := range all {
				all[i] = s.connect()
			}
			var served atomic.Int32 // a leader that stalls has a successor
			waited.Store(0)
			s.then.Store(new(func() {
				if i := served.Add(1) - 1; i > 0 && !all[i-1].hasResponse() {
					waited.Add(1)
				}
			}))
			s.turn(sender, func() {
				for _, c := range all {
					c.request("/then", fields)
				}
			})
			for i, c := range all {
				c.want(t, "/then")
				if fields == "" {
					c.Close()
					continue
				}
				_, err := c.in.ReadByte()
				testkit.Is(t, err, io.EOF, "after the last response on connection", i)
			}
			testkit.WaitFor(t, "the connections' ends", func() bool { return s.server.group.Open() == 1 })
			return waited.Load() >= conns/2
		})
	}
}

// Waiting responses arrive, each once, whatever the handler does meanwhile.
func TestResponseThatWaitsIsNotLost(t *testing.T) {
	type parts struct {
		*outboxSite
		first    *client
		received chan bool // closed when the first client has its response
	}
	for name, test := range map[string]struct {
		then func(p parts)
		want int // responses that the first client receives
	}{
		"nothing happens": {func(parts) {}, 2},
		"handler waits":   {func(p parts) { <-p.received }, 2},
		"request, handler waits": {func(p parts) {
			p.first.request("/next", "")
			<-p.received
		}, 3},
		"handler panics": {func(parts) { panic(http.ErrAbortHandler) }, 2},
		"handler exits":  {func(parts) { runtime.Goexit() }, 2},
		"thread is locked": {func(parts) {
			runtime.LockOSThread()
			runtime.Goexit()
		}, 2},
		"handler keeps its thread": {func(parts) { runtime.LockOSThread() }, 2},
		"next request":             {func(p parts) { p.first.request("/next", "") }, 3},
		"half of one":              {func(p parts) { io.WriteString(p.first, "GET /next HTTP/1.1\r\nHo") }, 2},
		"client leaves":            {func(p parts) { p.first.CloseWrite() }, 2},
		"reset": {func(p parts) {
			p.first.SetLinger(0)
			p.first.Close()
		}, 0},
		"idle connections close": {func(p parts) {
			p.server.state.Closing.Store(true)
			p.server.group.CloseIdle()
		}, 2},
		"all connections close": {func(p parts) {
			p.server.state.Aborted.Store(true)
			p.server.group.CloseAll()
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.WaitFor(t, "a response to wait", func() bool {
				s := newOutboxSite(t)
				p := parts{s, s.connect(), make(chan bool)}
				sender, second := s.connect(), s.connect()
				var waited atomic.Bool
				s.then.Store(new(func() {
					waited.Store(!p.first.hasResponse())
					test.then(p)
				}))
				s.send.Store(new(func() {
					p.first.request("/first", "")
					p.first.request("/second", "")
					second.request("/then", "")
				}))
				sender.request("/send", "")
				for i := range test.want {
					p.first.want(t, [...]string{"/first", "/second", "/next"}[i])
				}
				close(p.received)
				for _, c := range []*client{sender, second} {
					_, _ = c.response()
					c.Close()
				}
				p.first.Close()
				testkit.WaitFor(t, "the connections' ends", func() bool { return s.server.group.Open() == 0 })
				s.server.Close()
				return waited.Load()
			})
		})
	}
}

func (s *outboxSite) limitBuffers() {
	s.Helper()
	testkit.Control(s, s.listener, func(fd int) { // which connections inherit
		testkit.Check(s, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 4<<10))
	})
}

// The timeout that a handler sets applies to a response that has waited.
func TestResponseThatWaitsHasItsTimeout(t *testing.T) {
	s := newOutboxSite(t)
	s.limitBuffers()
	sender, stuck, other := s.connect(), s.connect(), s.connect()
	stuck.SetReadBuffer(4 << 10)
	testkit.WaitFor(t, "the client that does not read to be disconnected", func() bool {
		s.turn(sender, func() {
			stuck.request("/limited", "") // fails once the server has closed the connection
			other.request("/", "")
		})
		other.want(t, "/")
		return s.server.group.Open() < 3
	})
}

// A response whose WriteTimeout has passed is not sent, whether it waits for others or not.
func TestResponseThatWaitsIsNotLate(t *testing.T) {
	s := newOutboxSite(t, func(c *Config) { c.Exchanges.WriteTimeout = 1 }) // passes in the handler
	sender := newClient(t, s.listener)
	var all [2 * outboxConns]*client
	for i := range all {
		all[i] = newClient(t, s.listener)
	}
	s.send.Store(new(func() {
		for _, c := range all {
			c.request("/", "")
		}
	}))
	sender.request("/send", "")
	for _, c := range all {
		testkit.Fails(c.response())(t, "")
	}
}

// A leader runs no handler that would wait for its request's body, and no more than some requests of
// one client in a row.
func TestLeaderLeavesLongWorkToOthers(t *testing.T) {
	s := newOutboxSite(t)
	const where, onLoop = "GET /where HTTP/1.1\r\nHost: a\r\n\r\n", "leads: true /where"
	c := s.connect()
	testkit.Send(t, c, strings.Repeat(where, 3*turnRequests))
	n := 0
	for range 3 * turnRequests {
		if testkit.Value(c.response())(t) == onLoop {
			n++
		}
	}
	testkit.Between(t, n, 0, turnRequests, "handlers that the leader has run in a row")
	sender, other := s.connect(), s.connect()
	s.turn(sender, func() {
		other.request("/", "")
		io.WriteString(c, strings.Replace(where, "GET", "POST", 1)[:len(where)-1]+"Content-Length: 1\r\n\r\n")
	})
	other.want(t, "/") // it does not wait for the body
	testkit.Send(t, c, "x")
	testkit.Equal(t, testkit.Value(c.response())(t) == onLoop, false, "a request runs whose body has not arrived")
}

// Over TLS no response waits: what is sent later would not be encrypted.
func TestResponsesOverTLSDoNotWait(t *testing.T) {
	s := newOutboxSite(t, func(c *Config) {
		c.Exchanges.TLS = &tls.Config{Certificates: []tls.Certificate{tlstest.ServerCertificate()}}
	})
	var all [4]*tls.Conn
	var in [len(all)]*client
	request := func(i int, path, fields string) {
		fmt.Fprintf(all[i], "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", path, fields)
	}
	for i := range all {
		c := newClient(t, s.listener)
		all[i] = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		in[i] = &client{c.TCPConn, bufio.NewReader(all[i])}
		request(i, "/", "")
		in[i].want(t, "/")
	}
	for _, fields := range []string{"", "Connection: close\r\n"} {
		s.send.Store(new(func() {
			for i := range all[1:] {
				request(i+1, "/", fields)
			}
		}))
		request(0, "/send", "")
		in[0].want(t, "/send")
		for _, c := range in[1:] {
			c.want(t, "/")
		}
	}
}

// servedConn returns a connection that a runner serves, as far as it can tell, and its client.
func servedConn(t *testing.T) (k *shardConn, client *net.UnixConn) {
	t.Helper()
	s := newTestServer(t, tcpListener(t), nil, nil)
	t.Cleanup(s.Close)
	fd, client := testkit.SocketPair(t)
	k = s.placeConn(s.group.chooseShard(), fd)
	k.state.move(stateWaiting, stateServed)
	t.Cleanup(func() { k.Close() })
	return k, client
}

// Output for which the socket has no room is sent when the client reads, once, also if it has
// waited or if the connection ends behind it. To wait for room costs the lead, and with it the
// outbox.
func TestOutputThatWaitsForRoomIsSentOnce(t *testing.T) {
	out := strings.Repeat("0123456789", 100_000)
	for _, c := range []struct{ hasWaited, isLast bool }{{true, true}, {true, false}, {false, true}} {
		k, client := servedConn(t)
		k.endsOutput = c.isLast
		hasArrived := make(chan bool)
		read := func() {
			if c.isLast {
				testkit.Reads(t, client, out)
			} else {
				testkit.Receives(t, client, out)
			}
			close(hasArrived)
		}
		if c.hasWaited {
			r := &runner{shard: &shard{group: k.group()}}
			r.leader.Follow(sched.New().NewLead(func() { go read() }))
			r.shard.outbox.waiting[0], r.shard.outbox.count = waitingOutput{conn: k, out: []byte(out)}, 1
			testkit.Equal(t, r.sendOutbox(), false, "the runner leads")
		} else {
			go read()
			testkit.Check(t, k.Send([]byte(out), 0))
			k.Close()
		}
		testkit.Receive(t, hasArrived, "the output", c)
	}
}

// The send timeout begins anew when the client has accepted something, also over TLS. What waits has
// a limit, because a client may make the server respond to TLS messages without end.
func TestSendTimeoutRestartsWithProgress(t *testing.T) {
	k, client := servedConn(t)
	k.conn = k.config().conns.Get()
	k.conn.SetSendTimeout(time.Hour)
	first := k.stallDeadline(0, false)
	testkit.Equal(t, k.stallDeadline(first, false), first, "without progress")
	testkit.Equal(t, k.stallDeadline(first, true) > first, true, "later with progress")
	var c ciphertext
	pool := &k.group().ciphertexts
	testkit.Must(t, c.append(make([]byte, 2*maxCiphertext), pool))
	testkit.Is(t, c.append([]byte("x"), pool), errCiphertextLimit)
	for i, moves := range []bool{true, false, true} {
		if i == 2 {
			testkit.Value(io.CopyN(io.Discard, client, 4*maxPlaintext))(t)
		}
		moved, err := c.send(k)
		testkit.Is(t, err, poll.ErrAgain)
		testkit.Equal(t, moved, moves, "call", i)
	}
	start := time.Now()
	testkit.Must(t, k.SetWriteDeadline(start.Add(50*time.Millisecond)))
	defer time.AfterFunc(10*time.Second, func() { client.Close() }).Stop()
	testkit.Is(t, k.Send(make([]byte, 2*maxCiphertext), 0), os.ErrDeadlineExceeded)
	time.AfterFunc(50*time.Millisecond, func() { k.SetReadDeadline(start) })
	testkit.FailsWith(k.Read(make([]byte, 1)))(t, os.ErrDeadlineExceeded)
	testkit.Between(t, time.Since(start), 0, 9*time.Second, "deadlines before the send timeout's")
}

// A leader may be replaced between naming its handler and closing the gate. It then sends the
// waiting responses before the handler runs, because no other goroutine would.
func TestResponsesGatedTooLateAreSent(t *testing.T) {
	for _, want := range []string{"", "responses"} {
		k, client := servedConn(t)
		r := &runner{shard: &shard{lead: sched.New().NewLead(func() {})}}
		k.conn = k.config().conns.Get()
		k.conn.Attach(k, "")
		k.conn.Out = []byte("responses")
		r.leader.Follow(r.shard.lead)
		r.leader.Begin()
		r.leader.Enter(sched.SlotFor("GET", "/hung"))
		if want != "" {
			r.MayBlock()
		}
		testkit.Check(t, r.gateOutput(k))
		k.Close()
		testkit.Reads(t, client, want, "what is sent before the handler runs")
	}
}
