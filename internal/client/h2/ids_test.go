package h2

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/tarehq/tare/internal/wire/http2"
)

type noHost struct{}

func (noHost) Closing()      {}
func (noHost) HasRoom()      {}
func (noHost) StreamClosed() {}

// A connection accepts no more streams while identifiers remain for those that are reserved.
func TestIdentifiersSufficeForReservedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		c := New(ours, &Config{ConnWindow: wire.InitialWindow, WriteTimeout: time.Minute}, noHost{}, 10)
		defer c.Close()
		c.mu.Lock()
		c.nextID = wire.MaxStreamID - 100
		c.mu.Unlock()
		if _, err := c.Open(new(Stream), noHost{}, &Request{Head: wire.AppendHeaders(nil, 0)}); err != nil {
			t.Error(err)
		}
		if synctest.Wait(); c.Reserve(false) {
			t.Error("a stream was reserved")
		}
	})
}
