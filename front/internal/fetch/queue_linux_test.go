package fetch

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/testkit"
)

// A response that a full disk cannot hold arrives unharmed: what was spooled, and then what memory
// holds. The error is reported.
func TestFullDiskSlowsResponses(t *testing.T) {
	t.Setenv("TMPDIR", testkit.SmallDisk(t, "64k"))
	const length, pieces = 1 << 20, 2
	random := rand.New(rand.NewPCG(1, 2))
	want := make([]byte, length)
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	first := make([]byte, BufferSize)
	body := bytes.NewReader(want[copy(first, want):])
	q := NewQueue(io.NopCloser(body), first, new(connection.Buffers), pieces, length)
	testkit.WaitFor(t, "the disk to be full", func() bool { return q.SpoolError() != nil })
	var got []byte
	for {
		b, err := q.Next(func() {})
		if err != nil {
			testkit.Is(t, err, io.EOF)
			break
		}
		got = append(got, b...)
	}
	testkit.Error(t, q.SpoolError(), unix.ENOSPC.Error())
	q.Close()
	testkit.Equal(t, bytes.Equal(got, want), true, len(got), "bytes are those that were sent")
}
