package h2

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

type noHost struct{}

func (noHost) Closing()      {}
func (noHost) HasRoom()      {}
func (noHost) StreamClosed() {}

// newConn returns a connection and its peer's end, which is not read.
func newConn(t *testing.T) (*Conn, net.Conn) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { theirs.Close() })
	c := New(ours, &Config{ConnWindow: wire.InitialWindow, WriteTimeout: time.Minute, MaxFrameSize: wire.MinMaxFrameSize},
		noHost{}, 10)
	t.Cleanup(c.Close)
	return c, theirs
}

func open(c *Conn) (*Stream, error) {
	st := new(Stream)
	_, err := c.Open(st, noHost{}, &Request{Head: wire.AppendHeaders(nil, 0)})
	return st, err
}

// A connection accepts no more streams while identifiers remain for those that are reserved.
func TestIdentifiersSufficeForReservedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, theirs := newConn(t)
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		c.mu.Lock()
		c.nextID = wire.MaxStreamID - 100
		c.mu.Unlock()
		testkit.Equal(t, c.Reserve(false), true, "the second stream is reserved")
		for range 2 {
			testkit.Value(open(c))(t)
		}
		synctest.Wait()
		testkit.Equal(t, c.Reserve(false), false, "another stream is reserved")
	})
}

// The request of a stream that was reserved before GOAWAY arrived is not sent.
func TestReservedStreamIsNotOpenedAfterGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, theirs := newConn(t)
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		testkit.Send(t, theirs, wire.AppendGoAway(wire.AppendSettings(nil), 0, wire.NoError))
		synctest.Wait()
		_, err := open(c)
		if e, ok := errors.AsType[*Error](err); !ok || !e.IsUnprocessed {
			t.Error(err)
		}
	})
}

// The output is bounded whatever the windows allow. A connection that its user closes is closed in
// time, although the peer reads nothing, or slowly.
func TestPeerThatDoesNotRead(t *testing.T) {
	for _, isSlow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, theirs := newConn(t)
			if isSlow {
				go func() {
					for _, err := theirs.Read(make([]byte, 1)); err == nil; _, err = theirs.Read(make([]byte, 1)) {
						time.Sleep(closeTimeout / 2)
					}
				}()
			}
			st := testkit.Value(open(c))(t)
			c.mu.Lock()
			c.sendWindow, st.sendWindow = wire.MaxWindow, wire.MaxWindow
			c.mu.Unlock()
			go func() { _ = st.Write(make([]byte, 10<<20), true) }()
			synctest.Wait()
			c.mu.Lock()
			testkit.Between(t, c.output.pending(), 1, maxOut+wire.MinMaxFrameSize+1<<10, "bytes that wait")
			c.mu.Unlock()
			c.Close()
			time.Sleep(closeTimeout)
			synctest.Wait()
			testkit.FailsWith(c.nc.Write([]byte("x")))(t, io.ErrClosedPipe)
			time.Sleep(closeTimeout) // the peer ends, too
		})
	}
}
