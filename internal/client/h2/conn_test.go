package h2

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/connection"
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
	return newConnOn(t, ours, theirs), theirs
}

func newConnOn(t *testing.T, ours, theirs net.Conn) *Conn {
	t.Cleanup(func() { theirs.Close() })
	c := New(ours, &Config{MaxHeadBytes: 1 << 12, MaxFields: 10, ConnWindow: wire.InitialWindow,
		StreamWindow: wire.InitialWindow, WriteTimeout: time.Minute, MaxFrameSize: wire.MinMaxFrameSize}, noHost{}, 10)
	t.Cleanup(c.Close)
	return c
}

func open(c *Conn) (*Stream, error) {
	st := new(Stream)
	_, err := c.Open(st, &Request{Head: wire.AppendHeaders(nil, 0)})
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

// Deliver returns after its function has returned, although the stream ends meanwhile.
func TestDeliverAwaitsItsFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, theirs := newConn(t)
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		st := testkit.Value(open(c))(t)
		release, returned := make(chan bool), make(chan bool, 1)
		go func() {
			st.Deliver(func([]byte) connection.Delivery { <-release; return connection.Delivered })
			returned <- true
		}()
		synctest.Wait()
		in := wire.AppendStatus(wire.AppendHeaders(wire.AppendSettings(nil), 1), http.StatusOK)
		in = wire.EndBlock(in, len(wire.AppendSettings(nil)), wire.MinMaxFrameSize)
		in = append(wire.AppendFrameHeader(in, wire.FrameHeader{Length: 1, Type: wire.Data, StreamID: 1}), 'x')
		testkit.Send(t, theirs, in)
		synctest.Wait()
		st.Abort(io.ErrClosedPipe, true)
		synctest.Wait()
		testkit.Equal(t, len(returned), 0, "Deliver has returned")
		release <- true
		<-returned
	})
}

// noDeadlines is a connection without deadlines.
type noDeadlines struct{ net.Conn }

func (noDeadlines) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// The output is bounded whatever the windows allow. A connection that its user closes is closed in
// time, although the peer reads nothing, or slowly, and even if there are no deadlines.
func TestPeerThatDoesNotRead(t *testing.T) {
	for _, test := range []struct{ isSlow, hasDeadlines bool }{{false, true}, {true, true}, {false, false}} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			if !test.hasDeadlines {
				ours = noDeadlines{ours}
			}
			c := newConnOn(t, ours, theirs)
			if test.isSlow {
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
