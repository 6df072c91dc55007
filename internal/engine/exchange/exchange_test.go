package exchange

import (
	"bytes"
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/tarehq/tare/internal/testkit"
)

type stubCodec struct{ Codec }

func (stubCodec) Reset() {}

// A Conn that waits for the rest of a head keeps what it has received, in little memory. It can
// serve another connection later.
func TestShrunkConnContinuesHead(t *testing.T) {
	const size = 4 << 10
	for _, head := range []string{"", "GET / HT", strings.Repeat("x", size/2)} {
		p := &Config{Protocol: Protocol{NewCodec: func() Codec { return stubCodec{} }}}
		c := NewConns(p, size, true).Get()
		c.Attach(nil, "remote")
		c.next, c.end = 5, 5+copy(c.in[5:], head)
		for range 3 { // it may wait again
			c.Shrink()
			testkit.Equal(t, string(c.Input()), head)
			testkit.Between(t, len(c.in), 0, max(leastPartial, 2*len(head)), "bytes are held for", len(head))
		}
		c.conns.Put(c)
		c.Attach(nil, "another")
		testkit.Equal(t, [...]int{len(c.in), c.next, c.end}, [...]int{size, 0, 0}, "the next connection's input")
	}
}

func TestFlushGateSendsPendingBytes(t *testing.T) {
	var s FlushGate
	var sent []byte
	s.Send() // the gate is open
	testkit.Equal(t, s.Open(), 0)
	s.Close([]byte("answers"), sendSome(func(b []byte) int {
		n := min(3, len(b))
		sent = append(sent, b[:n]...)
		return n
	}))
	s.Send()
	s.Send()
	testkit.Equal(t, s.Open(), 6)
	testkit.Equal(t, string(sent), "answer")
	s.Send()
	testkit.Equal(t, s.Open(), 0)
	testkit.Equal(t, string(sent), "answer", "after it was opened")
}

type sendSome func([]byte) int

func (f sendSome) TrySend(b []byte) int { return f(b) }

// An exchange exactly fills its size class, except for the eight bytes of the allocator's header.
func TestExchangeFillsItsSizeClass(t *testing.T) {
	const class, header = 704, 8
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("sizes are those of 64 bits")
	}
	testkit.Between(t, unsafe.Sizeof(Exchange{})+header, class-unsafe.Sizeof("")+1, class)
}

type baseLink struct {
	Transport
	ctx context.Context
}

func (l baseLink) Context() context.Context { return l.ctx }

// A connection's context does not keep requests that have ended.
func TestConnectionKeepsNoEndedRequest(t *testing.T) {
	base, cancel := context.WithCancel(t.Context())
	defer cancel()
	x := &Exchange{Body: Body{noWatch: true}}
	x.ctx = requestContext{transport: baseLink{ctx: base}, body: &x.Body}
	testkit.Equal(t, x.ctx.Err(), nil)
	x.ctx.cancel(context.Canceled)
	kept := weak.Make(x)
	runtime.GC()
	testkit.Equal(t, kept.Value() == nil, true, "nothing refers to the request")
}

// As with net/http, fields are sorted, also if there is no room for all of them.
func TestFieldsAreSortedByName(t *testing.T) {
	for n := range 12 {
		fields, got := make(http.Header), ""
		for i := range n {
			fields[string(rune('a'+i))] = nil
		}
		for _, f := range sortFields(make([]headerField, 0, 8), fields) {
			got += f.name
		}
		testkit.Equal(t, got, "abcdefghijkl"[:n])
	}
}

func TestDateFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d DateCache
		for range 100 {
			testkit.Equal(t, d.Text(), time.Now().UTC().Format(http.TimeFormat))
			time.Sleep(70 * time.Millisecond)
			synctest.Wait() // for a timer that expires at this instant
		}
	})
}

// After many handshakes a server that rests returns free memory to the system, once.
func TestMemoryIsReturnedAfterHandshakes(t *testing.T) {
	s := new(ServerState)
	for range leastHandshakes - 1 {
		s.CountHandshake()
	}
	testkit.Equal(t, s.awaitsRest.Load(), false, "the server awaits a rest after few handshakes")
	const garbage = 16 << 20
	runtime.KeepAlive(bytes.Repeat([]byte{1}, garbage))
	unreturned := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapIdle - m.HeapReleased
	}
	runtime.GC()
	runtime.GC()
	s.CountHandshake()
	testkit.WaitFor(t, "memory to be returned", func() bool {
		return s.trimmedAt.Load() == leastHandshakes && unreturned() <= garbage/4
	})
	s.CountHandshake()
	testkit.Equal(t, s.awaitsRest.Load(), false, "the same handshakes count again")
}
