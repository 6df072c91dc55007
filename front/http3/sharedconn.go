//go:build linux || darwin || freebsd

package http3

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/ipv4"

	quicserver "github.com/tarehq/tare/front/internal/quic"
)

const (
	tagBytes          = 4
	connectionIDBytes = 12 // a tag, and random bytes
	// maxForwarded is the number of forwarded packets that wait for the transport. More are lost,
	// as if the network had lost them.
	maxForwarded = 256
	// maxPacket is more than the bytes of a packet that quic-go receives.
	maxPacket = 2048
)

// tag tells which process has a connection. Its connection IDs start with it.
type tag [tagBytes]byte

// sharedConn is a UDP socket that other processes may have, too. It is the net.PacketConn of a
// quic.Transport, and generates its connection IDs.
//
//	reading  packets come from the socket; those of older processes are forwarded
//	paused   packets come from the process that replaces this one; reading again if that fails
type sharedConn struct {
	*net.UDPConn // quic-go uses the methods of quic.OOBCapablePacketConn
	batch        *ipv4.PacketConn
	own          tag
	files        quicserver.Files // nil without upgrades

	near *net.UnixConn // receives packets for this process; nil without upgrades
	far  *os.File      // the other end, which newer processes send to

	isPaused  atomic.Bool
	resumed   chan struct{} // holds one if reading may go on
	hasPeers  atomic.Bool
	forwarded chan packet
	closing   chan struct{} // closed when quic-go stops reading, or by Close
	closeOnce sync.Once
	receiving sync.WaitGroup

	mu           sync.Mutex
	peers        map[tag]*os.File // the far ends of older processes
	peersChecked time.Time        // when servesPeers has looked for their ends
	removeHook   func()           // undoes OnHandover
}

// packet is a forwarded packet.
type packet struct {
	data []byte
	from *net.UDPAddr
}

// newSharedConn prepares a socket. It receives from files how to reach older processes.
func newSharedConn(conn *net.UDPConn, files quicserver.Files) (*sharedConn, error) {
	c := &sharedConn{
		UDPConn: conn, batch: ipv4.NewPacketConn(conn), files: files, forwarded: make(chan packet, maxForwarded),
		closing: make(chan struct{}), resumed: make(chan struct{}, 1), peers: make(map[tag]*os.File),
	}
	_, _ = rand.Read(c.own[:]) // it never fails
	if files == nil {
		return c, nil
	}
	prefix := fmt.Sprintf("http3 %s ", conn.LocalAddr())
	for _, f := range files.Files(prefix) {
		if err := c.addPeer(f, strings.TrimPrefix(f.Name(), prefix)); err != nil {
			f.Close()
			return nil, err
		}
	}
	c.servesPeers() // removes those that have ended, so that upgrades do not add up descriptors
	if err := c.openPair(prefix + hex.EncodeToString(c.own[:])); err != nil {
		return nil, err
	}
	files.AddFile(c.far)
	c.removeHook = files.OnHandover(c.pause, c.resume)
	c.receiving.Go(c.receive)
	return c, nil
}

// addPeer adds an older process by the far end of its pair.
func (c *sharedConn) addPeer(f *os.File, name string) error {
	raw, err := hex.DecodeString(name)
	if err != nil || len(raw) != tagBytes {
		return fmt.Errorf("invalid name of a passed file: %q", f.Name())
	}
	c.peers[tag(raw)] = f
	c.hasPeers.Store(true)
	c.files.AddFile(f) // for newer processes
	return nil
}

// openPair opens the sockets through which newer processes forward packets.
func (c *sharedConn) openPair(name string) error {
	syscall.ForkLock.RLock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	near := os.NewFile(uintptr(pair[0]), name)
	defer near.Close()
	c.far = os.NewFile(uintptr(pair[1]), name)
	conn, err := net.FilePacketConn(near)
	if err != nil {
		c.far.Close()
		return err
	}
	c.near = conn.(*net.UnixConn)
	return nil
}

// receive receives forwarded packets until the pair is closed.
func (c *sharedConn) receive() {
	b := make([]byte, maxPacket)
	for {
		n, err := c.near.Read(b)
		if err != nil {
			return
		}
		from, data, ok := cutSender(b[:n])
		if !ok {
			continue
		}
		select {
		case c.forwarded <- packet{append([]byte(nil), data...), net.UDPAddrFromAddrPort(from)}:
			c.wake()
		default:
		}
	}
}

// wake ends a read from the socket, which then looks for forwarded packets.
func (c *sharedConn) wake() { _ = c.UDPConn.SetReadDeadline(time.Unix(1, 0)) }

// pause stops reading from the socket, until resume is called.
func (c *sharedConn) pause() {
	c.isPaused.Store(true)
	c.wake()
}

// resume reads from the socket again.
func (c *sharedConn) resume() {
	c.isPaused.Store(false)
	select {
	case c.resumed <- struct{}{}:
	default:
	}
}

// ReadBatch is how quic-go reads.
func (c *sharedConn) ReadBatch(all []ipv4.Message, flags int) (int, error) {
	for {
		select {
		case p := <-c.forwarded:
			p.store(&all[0])
			return 1, nil
		case <-c.closing:
			return 0, net.ErrClosed
		default:
		}
		if c.isPaused.Load() {
			select {
			case p := <-c.forwarded:
				p.store(&all[0])
				return 1, nil
			case <-c.resumed:
				continue
			case <-c.closing:
				return 0, net.ErrClosed
			}
		}
		n, err := c.batch.ReadBatch(all, flags)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// A packet that is forwarded from now on sets the deadline again.
			if err := c.UDPConn.SetReadDeadline(time.Time{}); err != nil {
				return 0, err
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		if c.hasPeers.Load() {
			n = c.keepOwn(all[:n])
		}
		if n > 0 {
			return n, nil
		}
	}
}

// store makes a packet one that was read.
func (p packet) store(m *ipv4.Message) {
	m.N, m.NN, m.Flags, m.Addr = copy(m.Buffers[0], p.data), 0, 0, p.from
}

// keepOwn forwards the packets of other processes and moves the others to the front. quic-go has
// the buffers, so their contents are moved.
func (c *sharedConn) keepOwn(all []ipv4.Message) (n int) {
	for i := range all {
		m := &all[i]
		if c.forward(m) {
			continue
		}
		if own := &all[n]; own != m {
			own.N, own.NN, own.Flags, own.Addr = copy(own.Buffers[0], m.Buffers[0][:m.N]), copy(own.OOB, m.OOB[:m.NN]),
				m.Flags, m.Addr
		}
		n++
	}
	return n
}

// forward sends a packet to the process that has its connection, and reports whether that is
// another one. If the process has ended, the packet is this one's: its client then learns that the
// connection is lost.
func (c *sharedConn) forward(m *ipv4.Message) bool {
	id, ok := tagOf(m.Buffers[0][:m.N])
	from, isUDP := m.Addr.(*net.UDPAddr)
	if !ok || !isUDP || id == c.own {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[id]
	if p == nil {
		return false
	}
	return c.sendTo(id, p, append(appendSender(nil, from.AddrPort()), m.Buffers[0][:m.N]...))
}

// sendTo sends a message to an older process, and removes one that has closed the socket. It
// reports false then. The caller holds mu.
func (c *sharedConn) sendTo(id tag, p *os.File, message []byte) bool {
	err := sendNow(p, message)
	if err == nil || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOBUFS) {
		return true // without room the message is lost
	}
	c.files.RemoveFile(p)
	delete(c.peers, id)
	c.hasPeers.Store(len(c.peers) > 0)
	return false
}

// peerCheckInterval is how often servesPeers looks for the ends of older processes.
const peerCheckInterval = 100 * time.Millisecond

// servesPeers reports whether older processes need this one for their packets: they have the socket
// open, and no newer process reads from it.
func (c *sharedConn) servesPeers() bool {
	if c.isPaused.Load() || !c.hasPeers.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.peersChecked) >= peerCheckInterval {
		c.peersChecked = now
		for id, p := range c.peers {
			c.sendTo(id, p, []byte{0}) // an empty address, which processes ignore
		}
	}
	return len(c.peers) > 0
}

// sendNow sends a datagram, or fails with EAGAIN: it never waits for a process that does not read.
func sendNow(to *os.File, b []byte) error {
	raw, err := to.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Control(func(fd uintptr) { sendErr = syscall.Sendmsg(int(fd), b, nil, nil, syscall.MSG_DONTWAIT) })
	return errors.Join(err, sendErr)
}

// A forwarded packet follows its sender's address: its length in a byte, and its binary form.

func appendSender(b []byte, from netip.AddrPort) []byte {
	text, _ := from.MarshalBinary() // it never fails
	return append(append(b, byte(len(text))), text...)
}

func cutSender(b []byte) (from netip.AddrPort, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return from, nil, false
	}
	end := 1 + int(b[0])
	err := from.UnmarshalBinary(b[1:end])
	return from, b[end:], err == nil
}

// tagOf returns the beginning of a packet's connection ID (RFC 8999, 5). Clients choose that of
// their first packets at random.
func tagOf(b []byte) (id tag, ok bool) {
	if len(b) > 0 && b[0]&0x80 != 0 { // a long header: version, length of the ID, ID
		if len(b) < 6 || int(b[5]) < tagBytes || len(b) < 6+tagBytes {
			return id, false
		}
		return tag(b[6:]), true
	}
	if len(b) < 1+connectionIDBytes {
		return id, false
	}
	return tag(b[1:]), true
}

// GenerateConnectionID implements quic.ConnectionIDGenerator.
func (c *sharedConn) GenerateConnectionID() (quic.ConnectionID, error) {
	var b [connectionIDBytes]byte
	copy(b[:], c.own[:])
	_, _ = rand.Read(b[tagBytes:]) // it never fails
	return quic.ConnectionIDFromBytes(b[:]), nil
}

// ConnectionIDLen implements quic.ConnectionIDGenerator.
func (c *sharedConn) ConnectionIDLen() int { return connectionIDBytes }

// SetReadDeadline is how quic-go stops reading.
func (c *sharedConn) SetReadDeadline(t time.Time) error {
	c.stop()
	return c.UDPConn.SetReadDeadline(t)
}

func (c *sharedConn) stop() { c.closeOnce.Do(func() { close(c.closing) }) }

// Close closes the socket.
func (c *sharedConn) Close() error {
	c.stop()
	err := c.UDPConn.Close()
	if c.files == nil {
		return err
	}
	c.removeHook()
	c.near.Close()
	c.receiving.Wait()
	c.files.RemoveFile(c.far)
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, p := range c.peers {
		c.files.RemoveFile(p)
		delete(c.peers, id)
	}
	c.hasPeers.Store(false)
	return err
}
