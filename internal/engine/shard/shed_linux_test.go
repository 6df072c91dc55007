package shard

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/h2test"
)

// When descriptors have run out, an idle connection makes room, whatever descriptors it and those
// of busy connections have.
func TestIdleConnectionsAmongBusyOnesMakeRoom(t *testing.T) {
	const busy, idle = 300, 150
	s := newTestServer(t, tcpListener(t), nil, nil)
	defer s.Close()
	var all []*shardConn
	for i := range busy + idle {
		ours, _ := testkit.SocketPair(t)
		k := s.placeConn(s.group.allShards()[0], ours)
		if i < busy {
			k.state.move(stateWaiting, stateServed)
		}
		all = append(all, k)
	}
	for n := range idle {
		s.group.shed(true)
		testkit.Equal(t, s.group.Open(), int64(busy+idle-n-1), "open connections after", n+1, "calls")
		testkit.Equal(t, n == 1 && all[busy+1].state.is(stateClosed), false, "the second sample is the first")
	}
	for _, k := range all {
		k.state.move(stateServed, stateWaiting) // for Close
	}
}

// Connections that linger make room before idle ones do, the oldest first.
func TestLingeringConnectionsMakeRoom(t *testing.T) {
	s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 0 {
			testkit.Check(t, w.(connection.ResponseWriter).SetLinger(time.Hour, time.Hour, false))
		}
	})
	idle := s.connect()
	g := s.server.group
	lingering := func() (n int) {
		g.conns.each(func(k *shardConn) {
			if k.state.has(flagLingers) {
				n++
			}
		})
		return n
	}
	var clients []io.Writer
	for i := range 3 {
		c := s.connect()
		testkit.Send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
		testkit.WaitFor(t, "the connection to linger", func() bool { return lingering() == i+1 })
		clients = append(clients, c)
	}
	awaitEnd := func(i int) {
		testkit.WaitFor(t, fmt.Sprintf("connection %d to end", i), func() bool {
			_, err := io.WriteString(clients[i], "x")
			return err != nil
		})
	}
	g.shed(true)
	awaitEnd(0) // the oldest
	testkit.WaitFor(t, "the others to stay", func() bool { return g.Open() == 3 })
	g.shed(true)
	g.shed(true) // the second call follows at once, and ends another one
	awaitEnd(1)
	awaitEnd(2)
	testkit.WaitFor(t, "the idle one to stay", func() bool { return g.Open() == 1 })
	testkit.Value(request(idle))(t)
}

// An event of a connection that was closed does not concern another one with its descriptor.
func TestEventsOfClosedConnectionsAreIgnored(t *testing.T) {
	s := newTestServer(t, tcpListener(t), nil, nil)
	defer s.Close()
	unled := testkit.Value(newShard(s.group, 0))(t)
	defer unled.stop()
	fd, client := testkit.SocketPair(t)
	first := s.placeConn(unled, fd)
	testkit.Must(t, first.addToLoop())
	_ = client.CloseWrite()
	wait := func() poll.Event {
		events, _, err := unled.loop.Wait()
		if err != nil || len(events) != 1 {
			t.Fatalf("%v, %v", events, err)
		}
		return events[0]
	}
	old := wait()
	testkit.Equal(t, unled.connOf(old) == first && old.Ended, true, "the event is of the first connection")
	_ = first.Close()
	other, peer := testkit.SocketPair(t)
	if other != fd {
		testkit.Must(t, syscall.Dup3(other, fd, syscall.O_CLOEXEC))
		_ = syscall.Close(other)
	}
	second := s.placeConn(unled, fd)
	defer second.Close()
	testkit.Equal(t, unled.connOf(old) == nil, true, "an event of the first connection is not one of the second")
	testkit.Must(t, second.addToLoop())
	io.WriteString(peer, "x")
	e := wait()
	testkit.Equal(t, unled.connOf(e) == second && !e.Ended, true, "the event is of the second connection")
}

// Sweeps are frequent enough for the shortest timeout.
func TestSweepsFollowShortestTimeout(t *testing.T) {
	const short, every = 160 * time.Millisecond, 20 * time.Millisecond
	for name, set := range map[string]func(*exchange.Config, *http.HTTP2Config){
		"head":      func(p *exchange.Config, _ *http.HTTP2Config) { p.HeadTimeout = short },
		"handshake": func(p *exchange.Config, _ *http.HTTP2Config) { p.HandshakeTimeout = short },
		"idle":      func(p *exchange.Config, _ *http.HTTP2Config) { p.IdleTimeout = short },
		"send":      func(p *exchange.Config, _ *http.HTTP2Config) { p.DefaultSendTimeout = short },
		"ping":      func(_ *exchange.Config, p *http.HTTP2Config) { p.SendPingTimeout = short },
	} {
		x := &exchange.Config{HeadTimeout: time.Minute, HandshakeTimeout: time.Minute, IdleTimeout: time.Minute}
		var http2 http.HTTP2Config
		set(x, &http2)
		p := &Config{Exchanges: x, HTTP2: h2.NewConfig(x, &http2, 0)}
		g := Group{sweeper: time.NewTimer(time.Hour), sweepEvery: time.Hour}
		long := &Config{Exchanges: &exchange.Config{HeadTimeout: time.Hour, HandshakeTimeout: time.Hour}, HTTP2: p.HTTP2}
		for _, listener := range []*Config{long, p, long} {
			g.sweepFor(listener)
		}
		testkit.Equal(t, g.sweepEvery, every, name)
	}
}

func TestEarlyReadsThatFindNothingEnd(t *testing.T) {
	var e earlyReads
	for i := range earlyMisses {
		testkit.Equal(t, e.isWorthwhile(), true, "after", i, "early reads that have found nothing")
		e.noteWaiting()
	}
	tries := 0
	for range 10 * earlySample {
		if e.isWorthwhile() {
			tries++
			e.noteWaiting()
		}
	}
	testkit.Equal(t, tries, 10, "early reads")
	e.noteServed()
	testkit.Equal(t, e.isWorthwhile(), true, "after one has found a request")
}

// A connection that is placed while the server shuts down is served: it was accepted before.
func TestShutdownServesConnectionThatIsBeingPlaced(t *testing.T) {
	s := newTestServer(t, nil, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }, nil)
	s.state.Closing.Store(true)
	testkit.Equal(t, s.group.CloseIdle(), 0)
	fd, client := testkit.SocketPair(t)
	k := s.placeConn(s.group.chooseShard(), fd)
	if k == nil {
		t.Fatal("the connection was closed")
	}
	k.addOrClose()
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: host\r\n\r\n")
	in := bufio.NewReader(client)
	resp := testkit.Value(http.ReadResponse(in, nil))(t)
	testkit.Equal(t, string(testkit.Value(io.ReadAll(resp.Body))(t)), "x")
	testkit.Equal(t, resp.Close, true)
	_, err := in.ReadByte()
	testkit.Is(t, err, io.EOF)
	<-s.group.stopped
}

// A connection on which a request has arrived that was not read, or is being served, is not idle:
// it is closed neither if descriptors run out nor by Shutdown. Nor does Shutdown close a new one.
func TestUnreadRequestIsNotIdle(t *testing.T) {
	s := newTestServer(t, nil, nil, nil)
	defer s.Close()
	placeWith := func(text string) (*shardConn, int) {
		fd, client := testkit.SocketPair(t)
		k := s.placeConn(s.group.chooseShard(), fd) // no loop reports it
		k.state.set(flagNew, false)
		io.WriteString(client, text)
		return k, fd
	}
	k, fd := placeWith("G")
	s.group.shed(false)
	testkit.Equal(t, k.state.is(stateWaiting), true, "the lack of descriptors does not close it")
	testkit.Equal(t, k.closeIfIdle(), false, "Shutdown closes a connection with an unread request")
	testkit.Value(syscall.Read(fd, make([]byte, 1)))(t)
	k.state.set(flagHead, true)
	testkit.Equal(t, k.closeIfIdle(), false, "Shutdown closes a connection with a part of a head")
	k.state.set(flagHead, false)
	s.group.shed(false)
	testkit.Equal(t, k.state.is(stateClosed), true, "the lack of descriptors closes an idle connection")
	k, _ = placeWith("")
	k.opened -= instant(time.Hour)
	k.tls = &tlsLayer{below: k, secured: s.group.now()}
	k.state.set(flagNew, true)
	testkit.Equal(t, k.closeIfIdle(), false, "Shutdown closes a connection whose handshake has just ended")
	k.tls.secured = k.opened
	testkit.Equal(t, k.closeIfIdle(), true, "Shutdown closes an idle connection")
	k, _ = placeWith("")
	frames := h2test.NewFrames(t)
	frames.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frames.Add("SETTINGS 65535, GET 1")
	newShardSession(k, nil).session.Receive(frames.Bytes())
	s.group.shed(false)
	testkit.Equal(t, k.state.is(stateWaiting), true, "the lack of descriptors does not close a session with a stream")
}
