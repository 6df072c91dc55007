package h2_test

import (
	"net/http"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

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
