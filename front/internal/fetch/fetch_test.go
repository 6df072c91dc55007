package fetch_test

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/internal/testkit"
)

// pieces is a body that arrives in pieces, and records how much its reader had room for.
type pieces struct {
	left  []byte
	piece int
	rooms []int
}

func (p *pieces) Read(b []byte) (int, error) {
	p.rooms = append(p.rooms, len(b))
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[:min(p.piece, len(p.left))])
	p.left = p.left[n:]
	return n, nil
}

// The buffer between a client and a file is small while the client is slow, and grows for one that
// is not. All bytes are in the file, in order.
func TestSlowBodiesHaveSmallBuffers(t *testing.T) {
	const length = 300_000
	sent := make([]byte, length)
	for i := range sent {
		sent[i] = byte(i * 31 >> 3)
	}
	spooled := func(r io.Reader) (*fetch.Body, error) { return fetch.ReadBody(r, length, fetch.DefaultBodyBuffer) }
	inFile := func(r io.Reader) (*fetch.Body, error) { return fetch.ReadBodyFile(r, -1, t.TempDir(), false) }
	for _, test := range []struct {
		piece, last int
		read        func(io.Reader) (*fetch.Body, error)
	}{
		{1000, 4 << 10, spooled},
		{length, 32 << 10, spooled},
		{1000, 4 << 10, inFile},
		{length, 32 << 10, inFile},
	} {
		from := &pieces{left: sent, piece: test.piece}
		b := testkit.Value(test.read(from))(t)
		r := testkit.Value(b.Open())(t)
		got := testkit.Value(io.ReadAll(r))(t)
		testkit.Equal(t, string(got), string(sent), "pieces of", test.piece)
		b.Close()
		testkit.Equal(t, from.rooms[len(from.rooms)-1], test.last, "the last buffer for pieces of", test.piece)
	}
}

// A client that requests one name after another displaces none that is in use.
func TestNamesInUseAreKept(t *testing.T) {
	const enough = 1000 // more than the limit of each kind
	lookup := func(context.Context, string) ([]netip.Addr, time.Duration, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, time.Hour, nil
	}
	groups := fetch.NewGroups(upstream.Options{Lookup: lookup})
	defer groups.Close()
	group := fetch.KeepAliveOf(new(conf.Upstream))
	pool := fetch.NewPool(new(conf.ProxyTLS), group, false)
	defer pool.Close()
	for kind, get := range map[string]func(n int) any{
		"groups": func(n int) any {
			return testkit.Value(groups.Servers(t.Context(), fmt.Sprintf("n%d.example:80", n)))(t)
		},
		"transports": func(n int) any {
			return testkit.Value(pool.Transport(fetch.Identity{UsesTLS: true, Name: fmt.Sprintf("n%d.example", n)}))(t)
		},
	} {
		used, unused := get(0), get(1)
		for n := 2; n < enough; n++ {
			if get(n); get(0) != used {
				t.Fatalf("%s: one in use was dropped after %d others", kind, n)
			}
		}
		testkit.Equal(t, get(1) == unused, false, kind, "keep one that is not in use")
	}
}
