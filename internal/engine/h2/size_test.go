package h2_test

import (
	"net/http"
	"testing"
	"unsafe"

	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/testkit"
)

// An idle connection keeps its session. Each request has a stream. Their sizes are those of classes
// of the allocator.
func TestTypesFitTheirSizeClasses(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("sizes are those of 64 bits")
	}
	if session, stream := unsafe.Sizeof(h2.Session{}), unsafe.Sizeof(h2.Stream{}); session > 896 || stream > 256 {
		t.Errorf("a session has %d bytes, a stream %d", session, stream)
	}
}

// An idle session keeps neither its last stream nor a buffer for input.
func TestIdleSessionHoldsNoStream(t *testing.T) {
	p := newPeer(t, nil, hello)
	p.open()
	for id := uint32(1); id < 100; id += 2 {
		p.get(id)
		if id%20 == 1 {
			p.input.Truncate(p.input.Len() - 3) // a frame that is received in two parts
			rest := p.input.Bytes()[p.input.Len() : p.input.Len()+3]
			tail := string(rest)
			p.pump()
			p.input.WriteString(tail)
		}
	}
	for id := uint32(101); id < 301; id += 2 {
		p.get(id)
	}
	if p.pump(); p.session.HoldsLargeTable() {
		t.Error("it holds a table for many streams")
	}
	if p.session.HoldsStream() {
		t.Error("it holds a stream")
	}
	if n := p.session.Buffered(); n > 0 {
		t.Errorf("it holds %d bytes of input", n)
	}
}

// A small GET costs the exchange, the text of its head, the map of its fields, and the stream. The
// content of a response's field is the handler's.
func TestAllocationsOfSmallGET(t *testing.T) {
	testkit.NoRace(t, "it allocates")
	body := []byte("hello")
	p := newPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
	p.open()
	id := uint32(1)
	run := func() {
		p.get(id)
		id += 2
		p.pump()
		p.discard()
	}
	run() // fills the tables
	const budget, ofTest = 4, 1
	if n := testkit.Allocs(1000, run); n > budget+ofTest {
		t.Errorf("%v allocations", n)
	} else {
		t.Logf("%v allocations", n)
	}
}
