package shard

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// moveAll asks all shards to move connections until stop is closed, and counts the moves it sees.
func moveAll(g *Group, stop <-chan struct{}, seen *atomic.Int64) {
	shards, last := g.allShards(), make(map[*shardConn]*shard)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		from, to := i%len(shards), (i+1+i/7%2)%len(shards)
		shards[from].load.relief.Store(shards[to])
		if i%4 == 0 { // a connection rarely moves: only while several have events
			g.conns.each(func(k *shardConn) {
				if before := last[k]; before != nil && before != k.shard() {
					seen.Add(1)
				}
				last[k] = k.shard()
			})
		}
		time.Sleep(10 * time.Microsecond)
	}
}

// Connections that move between loops all the time work as others do.
func TestConnectionsWorkWhileTheyMove(t *testing.T) {
	const rounds = 8
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	left := make(chan bool, 1)
	s := serveOn(t, tcpListener(t), busyHandler(left))
	s.connect()
	stop, endLoad := make(chan struct{}), make(chan struct{})
	var load, moving sync.WaitGroup
	var moves atomic.Int64
	moving.Go(func() { moveAll(s.server.group, stop, &moves) })
	for range 12 {
		load.Go(func() {
			c := newTestClient(t, s.listener.Addr().String())
			defer c.Close()
			c.getUntil(t, endLoad)
		})
	}
	const (
		first = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		host  = " HTTP/1.1\r\nHost: a\r\n"
	)
	var tests sync.WaitGroup
	for name, test := range map[string]struct {
		pieces []string // sent with pauses between them
		want   int      // responses
		body   string   // of the last
	}{
		"pieces":    {strings.SplitAfter("GET /"+host+"X: y\r\n\r\n", " "), 1, "done"},
		"kept":      {[]string{first, first, first}, 3, "done"},
		"pipelined": {[]string{first + first + "GET /" + host, "\r\n"}, 3, "done"},
		"late body": {[]string{first, "POST /body" + host + "Content-Length: 5\r\n\r\nhe", "l", "lo"}, 2,
			"hello <nil>"},
		"large": {[]string{first, "GET /large" + host + "\r\n", "GET /large" + host + "\r\n"}, 3,
			strings.Repeat("\x00", bodySize)},
		"hijacked":    {[]string{first, "GET /hijack" + host + "\r\n", "line\n"}, 2, "line\n"},
		"closed side": {[]string{first, first, "close", "end"}, 2, "done"},
		"left":        {[]string{first, "GET /leave" + host + "\r\n", "leave"}, 0, ""},
	} {
		tests.Go(func() {
			t.Run(name, func(t *testing.T) {
				for range rounds {
					s.exchange(t, left, test.pieces, test.want, test.body)
				}
			})
		})
	}
	tests.Wait()
	// A connection moves if a loop reports several at once. Without other load, handlers are quick:
	// slow ones leave the loops.
	close(endLoad)
	load.Wait()
	together := make([]*testClient, 30)
	for i := range together {
		together[i] = newTestClient(t, s.listener.Addr().String())
		defer together[i].Close()
	}
	for end := time.Now().Add(time.Minute); moves.Load() == 0 && time.Now().Before(end) && !t.Failed(); {
		for _, c := range together {
			c.send(t)
		}
		for _, c := range together {
			c.receive(t)
		}
	}
	close(stop)
	moving.Wait()
	if moves.Load() == 0 {
		t.Error("no connection has moved")
	}
}

// A waiting connection exactly fills a size class of the allocator.
func TestShardConnFillsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(shardConn{}); size > 144 {
		t.Errorf("%d bytes", size)
	}
}
