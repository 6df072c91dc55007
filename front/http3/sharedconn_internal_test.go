//go:build linux

package http3

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/http3/qlog"
	"golang.org/x/net/ipv4"

	quicserver "github.com/tarehq/tare/front/internal/quic"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/testkit"
)

// passedFiles are the files that a process passes to the next one, in one process.
type passedFiles struct {
	t    *testing.T
	from *passedFiles // of the process that this one replaces

	mu    sync.Mutex
	added []*os.File
	stop  func()
}

func (p *passedFiles) AddFile(f *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.added = append(p.added, f)
}

func (p *passedFiles) RemoveFile(f *os.File) { f.Close() }

func (p *passedFiles) OnHandover(stop, _ func()) (remove func()) {
	p.stop = stop
	return func() {}
}

// A server whose address was removed goes on forwarding until the older process has ended. One that
// stops does not wait for it.
func TestRemovedServerForwardsUntilOlderProcessesEnd(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	files, conn := &passedFiles{t: t}, listenUDP(t)
	old := start(t, files, conn)
	request := newEchoing(t, conn.LocalAddr())
	files.stop()
	next := start(t, &passedFiles{t: t, from: files}, duplicateUDP(t, conn))
	old.Retire(true, 0)
	next.Retire(false, 0)
	for range 20 {
		time.Sleep(2 * peerCheckInterval / 20)
		testkit.Must(t, request.check())
		testkit.Equal(t, next.IsNeeded(true), true, "the server is needed by the older process")
	}
	request.send.Close()
	testkit.WaitFor(t, "the end of the connection", func() bool { return !old.IsNeeded(false) })
	testkit.Check(t, old.Close())
	testkit.WaitFor(t, "the end of the older process", func() bool { return !next.IsNeeded(true) })
}

// A process that has ended is not passed on: otherwise each upgrade would add a descriptor.
func TestEndedProcessesAreForgotten(t *testing.T) {
	t.Parallel()
	files, conn := &passedFiles{t: t}, listenUDP(t)
	old := start(t, files, conn)
	files.stop()
	nextFiles := &passedFiles{t: t, from: files}
	next := duplicateUDP(t, conn)
	start(t, nextFiles, next)
	testkit.Check(t, old.Close())
	nextFiles.stop()
	last := start(t, &passedFiles{t: t, from: nextFiles}, duplicateUDP(t, next))
	testkit.Equal(t, len(last.conn.peers), 1, "older processes")
}

func TestStoppingServerDoesNotWaitForOlderProcesses(t *testing.T) {
	t.Parallel()
	files, conn := &passedFiles{t: t}, listenUDP(t)
	start(t, files, conn)
	newEchoing(t, conn.LocalAddr())
	files.stop()
	next := start(t, &passedFiles{t: t, from: files}, duplicateUDP(t, conn))
	next.Retire(false, 0)
	testkit.Equal(t, next.IsNeeded(true), true, "needed by the older process")
	testkit.Equal(t, next.IsNeeded(false), false, "needed by this one")
}

// Files returns duplicates, as another process has them.
func (p *passedFiles) Files(prefix string) (found []*os.File) {
	if p.from == nil {
		return nil
	}
	p.from.mu.Lock()
	defer p.from.mu.Unlock()
	for _, f := range p.from.added {
		if strings.HasPrefix(f.Name(), prefix) {
			found = append(found, duplicateFile(p.t, f))
		}
	}
	return found
}

// echoing is a request whose response has what was sent so far.
type echoing struct {
	send     *io.PipeWriter
	response io.ReadCloser
}

// newEchoing begins a request on a new connection.
func newEchoing(t *testing.T, to net.Addr) *echoing {
	t.Helper()
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(func() { transport.Close() })
	body, send := io.Pipe()
	req := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+to.String()+"/", body))(t)
	resp := testkit.Value(transport.RoundTrip(req))(t)
	return &echoing{send, resp.Body}
}

// check sends a byte and receives it.
func (e *echoing) check() error {
	if _, err := io.WriteString(e.send, "x"); err != nil {
		return err
	}
	_, err := io.ReadFull(e.response, make([]byte, 1))
	return err
}

// Three processes replace each other. Requests in progress go on in the process of their
// connection, and new connections are the last one's.
func TestPacketsReachTheProcessOfTheirConnection(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for timeouts")
	var servers []*socketServer
	var requests []*echoing
	var files *passedFiles
	conn := listenUDP(t)
	for n := range 3 {
		if n > 0 {
			conn = duplicateUDP(t, conn)
			files.stop()
		}
		files = &passedFiles{t: t, from: files}
		servers = append(servers, start(t, files, conn))
		if n > 0 {
			servers[n-1].Retire(true, 0)
		}
		requests = append(requests, newEchoing(t, conn.LocalAddr()))
		for i, e := range requests {
			testkit.Equal(t, e.check(), nil, "after", n, "handovers, a request of process", i)
		}
	}
	for i, s := range servers {
		accepted, _ := s.Connections()
		testkit.Equal(t, accepted, 1, "connections of process", i)
	}
	requests[0].send.Close()
	testkit.WaitFor(t, "the end of the connection", func() bool { return !servers[0].IsNeeded(false) })
	requests = append(requests[1:], newEchoing(t, conn.LocalAddr()))
	for _, e := range requests {
		testkit.Check(t, e.check())
	}
}

// The tags of another version, or a damaged environment, are an error.
func TestInvalidTagsAreRejected(t *testing.T) {
	t.Parallel()
	f := testkit.Value(os.Open(os.DevNull))(t)
	defer f.Close()
	for _, name := range []string{"", "0", "010203", "0102030405060708", "0102030x"} {
		testkit.Error(t, new(sharedConn).addPeer(f, name), "invalid name", name)
	}
}

// A process that does not read its forwarded packets loses them, and does not hold up the one that
// reads from the socket.
func TestForwardingNeverWaits(t *testing.T) {
	t.Parallel()
	old, files := listenUDP(t), &passedFiles{t: t}
	first := testkit.Value(newSharedConn(old, files))(t)
	defer first.Close()
	next := testkit.Value(newSharedConn(duplicateUDP(t, old), &passedFiles{t: t, from: files}))(t)
	defer next.Close()
	client := testkit.Value(net.DialUDP("udp", nil, old.LocalAddr().(*net.UDPAddr)))(t)
	defer client.Close()
	foreign := append([]byte{0x40}, first.own[:]...)
	foreign = append(foreign, make([]byte, 1000)...)
	own := append([]byte{0x40}, next.own[:]...)
	own = append(own, make([]byte, 1000)...)
	read := make(chan int)
	go func() {
		all := newMessages()
		for {
			n, err := next.ReadBatch(all, 0)
			if err != nil {
				close(read)
				return
			}
			read <- n
		}
	}()
	for range 5000 { // more than the pair holds, and more than forwarded holds
		testkit.Send(t, client, foreign)
	}
	for end := time.Now().Add(time.Minute); ; {
		testkit.Send(t, client, own)
		select {
		case <-read:
			next.Close()
			for range read {
			}
			return
		case <-time.After(time.Millisecond):
			if time.Now().After(end) {
				t.Fatal("packets of the process that reads are not received")
			}
		}
	}
}

func duplicateFile(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd := testkit.Value(syscall.Dup(int(f.Fd())))(t)
	return os.NewFile(uintptr(fd), f.Name())
}

// duplicateUDP returns another descriptor of a socket, as another process has it.
func duplicateUDP(t *testing.T, conn *net.UDPConn) *net.UDPConn {
	t.Helper()
	f := testkit.Value(listen.Duplicate(conn, "udp"))(t)
	defer f.Close()
	other := testkit.Value(net.FilePacketConn(f))(t)
	return other.(*net.UDPConn)
}

// newMessages returns messages as quic-go passes them.
func newMessages() []ipv4.Message {
	all := make([]ipv4.Message, 8)
	for i := range all {
		all[i].Buffers, all[i].OOB = [][]byte{make([]byte, 1500)}, make([]byte, 128)
	}
	return all
}

// streamBody is a request's body, as quic-go has it.
type streamBody struct {
	io.ReadCloser
	id quic.StreamID
}

func (b streamBody) StreamID() quic.StreamID { return b.id }

// However late handlers start on a busy machine, their requests are not reported as rejected, too, and
// those that are reported are not served. A client may have as many as the connection has streams, and
// once more after it has canceled them.
func TestLateHandlersAreNoRejections(t *testing.T) {
	t.Parallel()
	const streams, late = 100, 4 * time.Second
	s := start(t, nil, listenUDP(t))
	testkit.Must(t, newEchoing(t, s.conn.LocalAddr()).check())
	open, rejected := s.one(t), 0
	c := &connection{quic: open.quic, server: open.server, config: &quicserver.Config{
		Listener: &nginxconf.Listener{HTTP3Streams: streams},
		Rejected: func(*http.Request, string, int, int64) { rejected++ }}}
	c.heads.init(c)
	fields := []qlog.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: "localhost"}, {Name: ":path", Value: "/"}}
	for n := range 2 * streams {
		c.heads.arrive(quic.StreamID(4*n), fields)
	}
	for i := range c.heads.waiting {
		c.heads.waiting[i].arrived = time.Now().Add(-late)
	}
	c.heads.rejectOld()
	for n := range 2 * streams {
		c.heads.serve(&http.Request{Body: streamBody{http.NoBody, quic.StreamID(4 * n)}})()
	}
	c.heads.end()
	testkit.Equal(t, rejected, 0, "requests with a handler that are reported as rejected")
	for n := range 2*streams + 1 {
		c.heads.arrive(quic.StreamID(4*n), fields)
	}
	testkit.Equal(t, rejected, 1, "rejected heads")
	testkit.Equal(t, len(c.heads.waiting), 2*streams, "heads that wait")
	c.heads.end()
	testkit.Equal(t, rejected, 2*streams+1, "rejected heads at the end of the connection")
	defer func() {
		testkit.Equal(t, recover(), any(http.ErrAbortHandler), "a request that is reported as rejected")
	}()
	c.heads.serve(&http.Request{Body: streamBody{http.NoBody, 0}})
}
