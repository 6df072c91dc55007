package fetch_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/tarehq/tare/front/internal/fetch"
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
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("pieces of %d: %d bytes, %v", test.piece, len(got), err)
		}
		b.Close()
		if last := from.rooms[len(from.rooms)-1]; last != test.last {
			t.Errorf("pieces of %d: a buffer of %d bytes, want %d", test.piece, last, test.last)
		}
	}
}
