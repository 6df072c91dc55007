package dns_test

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tarehq/tare/internal/dns"
	"github.com/tarehq/tare/internal/testkit"
)

// query is a packet that a test's server has received.
type query struct {
	server net.PacketConn
	from   net.Addr
	text   dnsmessage.Message
}

// queryServers returns the addresses of servers that only report queries.
func queryServers(t *testing.T, n int) (addresses []netip.AddrPort, received chan query) {
	received = make(chan query, 100)
	for range n {
		server := testkit.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { server.Close() })
		addresses = append(addresses, netip.MustParseAddrPort(server.LocalAddr().String()))
		go func() {
			b := make([]byte, 1000)
			for {
				n, from, err := server.ReadFrom(b)
				if err != nil {
					return
				}
				q := query{server: server, from: from}
				testkit.Check(t, q.text.Unpack(b[:n]))
				received <- q
			}
		}()
	}
	return addresses, received
}

// respond sends a response with an address to where q came from.
func (q *query) respond(t *testing.T, id uint16, address string) {
	name := q.text.Questions[0].Name
	m := dnsmessage.Message{
		Header: dnsmessage.Header{ID: id, Response: true}, Questions: q.text.Questions,
		Answers: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 7},
			Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
		}},
	}
	b, err := m.Pack()
	testkit.Check(t, err)
	_, err = q.server.WriteTo(b, q.from)
	testkit.Check(t, err)
}

// A response is valid after its query was repeated, to the same server or another. One server
// cannot respond to the query that another has received.
func TestLateResponseIsAccepted(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for a timeout")
	for _, n := range []int{1, 2} {
		servers, received := queryServers(t, n)
		go func() {
			first, second := <-received, <-received
			if first.text.ID != second.text.ID {
				first.respond(t, second.text.ID, "10.66.66.66")
				second.respond(t, first.text.ID, "10.66.66.66")
			}
			first.respond(t, first.text.ID, "10.0.0.1")
		}()
		r := resolver(t, dns.Config{Servers: servers, NoIPv6: true})
		testkit.Equal(t, found(t, r, "late.example"), "[10.0.0.1] 7s", n, "servers")
	}
}
