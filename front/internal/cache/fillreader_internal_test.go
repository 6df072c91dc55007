package cache

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// keeper is a client's response. If it fails, it keeps what it should have written, as HTTP/2 of
// net/http may after the client has reset the stream.
type keeper struct {
	http.ResponseWriter
	err  error
	kept []byte
}

func (k *keeper) Write(p []byte) (int, error) {
	k.kept = p
	return len(p), k.err
}

// Memory that a failed Write has received is not used for another client.
func TestMemoryOfFailedWriteIsNotReused(t *testing.T) {
	var pieces sync.Pool
	send := func(text string, to *keeper) {
		n := int64(len(text))
		r := &fillReader{ctx: context.Background(), pieces: &pieces,
			f: &fill{state: filled, buf: []byte(text), size: n, length: n, writerDone: true}}
		_ = r.sendTo(to, false) // an error is wanted
	}
	for range 50 {
		failed := &keeper{err: errors.New("the stream was reset")}
		send("one client's", failed)
		send("another one's", new(keeper))
		testkit.Equal(t, string(failed.kept), "one client's", "the memory")
	}
}
