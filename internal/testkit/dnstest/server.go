// Package dnstest is a DNS server on a loopback address, for tests.
package dnstest

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tarehq/tare/internal/testkit"
)

const (
	// maxPacket is the maximum length of a response over UDP. Longer ones are truncated.
	maxPacket = 512
	// maxIdle limits the time that a TCP connection is open.
	maxIdle = 10 * time.Second
)

// Response is what the server knows about a name.
type Response struct {
	Addresses []string // of both families
	TTL       uint32
	CNAME     string // another name; the response contains its records, too, if they are known
	Split     bool   // the response does not contain those of CNAME
	Code      dnsmessage.RCode
	// Silent sends no response, SilentFor none for a type.
	Silent    bool
	SilentFor dnsmessage.Type
	// Forged is the address in forged packets, which precede the response: with a wrong identifier,
	// with another question, or from another port.
	Forged string
}

// Server is a DNS server. Names that it does not know do not exist.
type Server struct {
	packet net.PacketConn
	stream net.Listener

	mu       sync.Mutex
	names    map[string]Response
	queries  map[string]int
	byStream int
}

// Start starts a Server until the end of the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{names: make(map[string]Response), queries: make(map[string]int)}
	var err error
	for range 20 { // the same port may be taken for UDP
		s.stream = testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		if s.packet, err = net.ListenPacket("udp", s.stream.Addr().String()); err == nil {
			break
		}
		s.stream.Close()
	}
	testkit.Must(t, err)
	awaitStreams := testkit.Accept(s.stream, func(_ int, c net.Conn) { s.serveStream(c) })
	var packets sync.WaitGroup
	packets.Go(s.servePackets)
	t.Cleanup(func() {
		s.packet.Close()
		s.stream.Close()
		packets.Wait()
		awaitStreams()
	})
	return s
}

// Addr returns the address of the server.
func (s *Server) Addr() netip.AddrPort { return netip.MustParseAddrPort(s.stream.Addr().String()) }

// Set changes what the server knows about a name.
func (s *Server) Set(name string, r Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[strings.ToLower(name)] = r
}

// Queries returns the number of queries for a name, of all types, and that of all over TCP.
func (s *Server) Queries(name string) (n, overTCP int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries[strings.ToLower(name)], s.byStream
}

func (s *Server) servePackets() {
	b := make([]byte, 4096)
	for {
		n, from, err := s.packet.ReadFrom(b)
		if err != nil {
			return
		}
		response, forged := s.respond(b[:n], maxPacket)
		if n := len(forged) - 1; n >= 0 { // the last one comes from another port
			for _, p := range forged[:n] {
				_, _ = s.packet.WriteTo(p, from)
			}
			if c, err := net.ListenPacket("udp", "127.0.0.1:0"); err == nil {
				_, _ = c.WriteTo(forged[n], from)
				c.Close()
			}
		}
		if response != nil {
			_, _ = s.packet.WriteTo(response, from)
		}
	}
}

// serveStream responds to the query of a connection.
func (s *Server) serveStream(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(maxIdle))
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return
	}
	b := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		return
	}
	s.mu.Lock()
	s.byStream++
	s.mu.Unlock()
	if response, _ := s.respond(b, 1<<16-1); response != nil {
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(response))), response...))
	}
}

// respond returns the response to a packet, and packets that only look like it. It has at most
// limit bytes.
func (s *Server) respond(packet []byte, limit int) (response []byte, forged [][]byte) {
	var query dnsmessage.Message
	if query.Unpack(packet) != nil || len(query.Questions) != 1 {
		return nil, nil
	}
	q := query.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	s.mu.Lock()
	s.queries[name]++
	r, ok := s.names[name]
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true, RCode: r.Code},
		Questions: query.Questions,
	}
	if m.Answers = s.records(name, q.Type, 0); !ok {
		m.RCode = dnsmessage.RCodeNameError
	}
	s.mu.Unlock()
	if r.Silent || r.SilentFor == q.Type {
		return nil, nil
	}
	if response = packed(&m); len(response) > limit {
		m.Truncated, m.Answers = true, nil
		response = packed(&m)
	}
	if r.Forged == "" {
		return response, nil
	}
	m.Answers = []dnsmessage.Resource{record(q.Name, r.Forged, 60)}
	m.ID++
	forged = append(forged, packed(&m))
	m.ID--
	m.Questions = []dnsmessage.Question{{Name: dnsmessage.MustNewName("other.example."), Type: q.Type, Class: q.Class}}
	forged = append(forged, packed(&m))
	m.Questions, m.Response = query.Questions, false
	forged = append(forged, packed(&m), []byte("no message"))
	m.Response = true
	return response, append(forged, packed(&m)) // the last one is right, but from another port
}

func packed(m *dnsmessage.Message) []byte {
	b, err := m.Pack()
	if err != nil {
		panic("dnstest: BUG: " + err.Error())
	}
	return b
}

// records returns the records of a name. The caller holds mu.
func (s *Server) records(name string, typ dnsmessage.Type, depth int) (all []dnsmessage.Resource) {
	r, ok := s.names[name]
	if !ok || r.Code != dnsmessage.RCodeSuccess || depth > 20 {
		return nil
	}
	n := dnsmessage.MustNewName(name + ".")
	if r.CNAME != "" {
		all = append(all, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: n, Class: dnsmessage.ClassINET, TTL: r.TTL},
			Body:   &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(r.CNAME + ".")},
		})
		if r.Split {
			return all
		}
		return append(all, s.records(strings.ToLower(r.CNAME), typ, depth+1)...)
	}
	for _, a := range r.Addresses {
		if isV4 := netip.MustParseAddr(a).Is4(); isV4 == (typ == dnsmessage.TypeA) {
			all = append(all, record(n, a, r.TTL))
		}
	}
	return all
}

// record returns a record with an address.
func record(name dnsmessage.Name, address string, ttl uint32) dnsmessage.Resource {
	header := dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: ttl}
	if a := netip.MustParseAddr(address); a.Is4() {
		return dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}}
	} else {
		return dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}}
	}
}

// DeadAddr returns an address at which nothing responds until the end of the test. The kernel
// rejects packets to it: the socket that occupies the port receives only those of its peer.
func DeadAddr(t testing.TB) netip.AddrPort {
	t.Helper()
	c := testkit.Value(net.Dial("udp", "127.0.0.1:9"))(t) // the port of the discard protocol; nothing is sent
	t.Cleanup(func() { c.Close() })
	return netip.MustParseAddrPort(c.LocalAddr().String())
}
