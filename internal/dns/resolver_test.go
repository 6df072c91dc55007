package dns_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tarehq/tare/internal/dns"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/dnstest"
)

func resolver(t *testing.T, c dns.Config) *dns.Resolver {
	t.Helper()
	r := testkit.Value(dns.New(c))(t)
	t.Cleanup(r.Close)
	return r
}

// found looks a name up, and returns sorted addresses, the time, or the error as a text.
func found(t *testing.T, r *dns.Resolver, name string) string {
	t.Helper()
	addresses, valid, err := r.Lookup(t.Context(), name)
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return "not found"
	case err != nil:
		return err.Error()
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return fmt.Sprint(addresses, valid)
}

func TestLookupReturnsAddressesAndTheirTime(t *testing.T) {
	s := dnstest.Start(t)
	long := strings.Repeat(strings.Repeat("a", 60)+".", 4) + "example"
	for name, r := range map[string]dnstest.Response{
		"both.example":   {Addresses: []string{"10.0.0.1", "2001:db8::1", "10.0.0.2"}, TTL: 7},
		"v6.example":     {Addresses: []string{"2001:db8::1"}, TTL: 3},
		"zero.example":   {Addresses: []string{"10.0.0.1"}},
		"huge.example":   {Addresses: []string{"10.0.0.1"}, TTL: 1<<31 - 1},
		"neg.example":    {Addresses: []string{"10.0.0.1"}, TTL: 1 << 31},
		"alias.example":  {CNAME: "Alias2.Example", TTL: 5},
		"alias2.example": {CNAME: "both.example", TTL: 60},
		"split.example":  {CNAME: "split2.example", TTL: 5, Split: true},
		"split2.example": {CNAME: "both.example", TTL: 6, Split: true},
		"loop.example":   {CNAME: "loop.example", TTL: 5},
		"loop1.example":  {CNAME: "loop2.example", TTL: 5, Split: true},
		"loop2.example":  {CNAME: "loop1.example", TTL: 5, Split: true},
		"empty.example":  {TTL: 5},
		"fails.example":  {Code: dnsmessage.RCodeServerFailure},
		"no.example":     {Code: dnsmessage.RCodeRefused},
		"forged.example": {Addresses: []string{"10.0.0.1"}, TTL: 9, Forged: "10.66.66.66"},
		long:             {Addresses: []string{"10.0.0.1"}, TTL: 9},
	} {
		s.Set(name, r)
	}
	r := resolver(t, dns.Config{Servers: []netip.AddrPort{s.Addr()}})
	for name, want := range map[string]string{
		"both.example": "[10.0.0.1 10.0.0.2 2001:db8::1] 7s", "BOTH.example.": "[10.0.0.1 10.0.0.2 2001:db8::1] 7s",
		"v6.example": "[2001:db8::1] 3s", "zero.example": "[10.0.0.1] 0s", "huge.example": "[10.0.0.1] 24h0m0s",
		"neg.example": "[10.0.0.1] 0s", "alias.example": "[10.0.0.1 10.0.0.2 2001:db8::1] 5s",
		"split.example": "[10.0.0.1 10.0.0.2 2001:db8::1] 5s",
		"loop.example":  "not found", "empty.example": "not found", "unknown.example": "not found",
		"forged.example": "[10.0.0.1] 9s", long: "[10.0.0.1] 9s",
		"": "not found", "a..b": "not found", strings.Repeat("a", 64) + ".example": "not found",
		strings.Repeat("a.", 127): "not found",
	} {
		testkit.Equal(t, found(t, r, name), want, name)
	}
	for name, want := range map[string]string{
		"fails.example": "RCodeServerFailure", "no.example": "RCodeRefused", "loop1.example": "CNAME",
	} {
		testkit.Contains(t, found(t, r, name), want, name)
	}
	if n, _ := s.Queries("a..b"); n > 0 {
		t.Error("an invalid name was sent")
	}
}

func TestSettingsChangeWhatIsFound(t *testing.T) {
	s := dnstest.Start(t)
	s.Set("both.example", dnstest.Response{Addresses: []string{"10.0.0.1", "2001:db8::1"}, TTL: 7})
	servers := []netip.AddrPort{s.Addr()}
	for want, c := range map[string]dns.Config{
		"[10.0.0.1] 7s":               {Servers: servers, NoIPv6: true},
		"[2001:db8::1] 7s":            {Servers: servers, NoIPv4: true},
		"[10.0.0.1 2001:db8::1] 1m0s": {Servers: servers, Valid: time.Minute},
	} {
		testkit.Equal(t, found(t, resolver(t, c), "both.example"), want)
	}
	for name, c := range map[string]dns.Config{
		"no servers": {}, "no family": {Servers: servers, NoIPv4: true, NoIPv6: true},
		"negative": {Servers: servers, Timeout: -1},
	} {
		testkit.Fails(dns.New(c))(t, "", name)
	}
}

// A response that does not fit into a packet is received over TCP. One that does not even fit into a
// message of a stream is an error: it does not mean that there are no addresses.
func TestLargeResponsesAreReceivedOverTCP(t *testing.T) {
	s := dnstest.Start(t)
	r := resolver(t, dns.Config{Servers: []netip.AddrPort{s.Addr()}, NoIPv6: true})
	for n, want := range map[int]string{2000: "10.0.7.207] 4s", 5000: "truncated"} {
		name := fmt.Sprintf("many%d.example", n)
		many := dnstest.Response{TTL: 4}
		for i := range n {
			many.Addresses = append(many.Addresses, fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
		}
		s.Set(name, many)
		testkit.Contains(t, found(t, r, name), want, n, "addresses")
		_, overTCP := s.Queries(name)
		testkit.Between(t, overTCP, 1, 10, "queries over TCP for", n, "addresses")
	}
}

// A server that is dead, silent or failing is passed over.
func TestNextServerIsTried(t *testing.T) {
	t.Parallel()
	good, failing, silent := dnstest.Start(t), dnstest.Start(t), dnstest.Start(t)
	good.Set("a.example", dnstest.Response{Addresses: []string{"10.0.0.1"}, TTL: 7})
	failing.Set("a.example", dnstest.Response{Code: dnsmessage.RCodeServerFailure})
	silent.Set("a.example", dnstest.Response{Silent: true})
	for name, other := range map[string]netip.AddrPort{
		"dead": dnstest.DeadAddr(t), "failing": failing.Addr(), "silent": silent.Addr(),
	} {
		r := resolver(t, dns.Config{Servers: []netip.AddrPort{other, good.Addr()}, NoIPv6: true})
		testkit.Equal(t, found(t, r, "a.example"), "[10.0.0.1] 7s", name)
	}
}

// Some servers never respond to queries for IPv6.
func TestSilenceAboutIPv6DelaysLookupBriefly(t *testing.T) {
	t.Parallel()
	s := dnstest.Start(t)
	s.Set("a.example", dnstest.Response{Addresses: []string{"10.0.0.1"}, TTL: 7, SilentFor: dnsmessage.TypeAAAA})
	r := resolver(t, dns.Config{Servers: []netip.AddrPort{s.Addr()}, Timeout: time.Hour})
	testkit.Equal(t, found(t, r, "a.example"), "[10.0.0.1] 7s")
}

// A lost packet about IPv4 does not cost a name its IPv4 addresses.
func TestLostPacketAboutIPv4IsSentAgain(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for a timeout")
	s := dnstest.Start(t)
	full := dnstest.Response{Addresses: []string{"10.0.0.1", "2001:db8::1"}, TTL: 70}
	silent := full
	silent.SilentFor = dnsmessage.TypeA
	s.Set("a.example", silent)
	servers := []netip.AddrPort{s.Addr()}
	r := resolver(t, dns.Config{Servers: servers})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // the lookup ends when the query for IPv4 is sent again: that for IPv6 has its response
		for n := 0; n < 3 && ctx.Err() == nil; n, _ = s.Queries("a.example") {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	addresses, valid, err := r.Lookup(ctx, "a.example")
	testkit.Equal(t, fmt.Sprint(addresses, valid, err), "[2001:db8::1] 5s <nil>", "without IPv4")
	before, _ := s.Queries("a.example")
	go func() {
		for n := before; n < before+2 && t.Context().Err() == nil; n, _ = s.Queries("a.example") {
			time.Sleep(time.Millisecond)
		}
		s.Set("a.example", full)
	}()
	testkit.Equal(t, found(t, r, "a.example"), "[10.0.0.1 2001:db8::1] 1m10s")
}

// Without a response a lookup ends with its time, its context or its Resolver, and leaves nothing.
func TestLookupEnds(t *testing.T) {
	s := dnstest.Start(t)
	s.Set("a.example", dnstest.Response{Silent: true})
	servers := []netip.AddrPort{s.Addr()}
	brief := resolver(t, dns.Config{Servers: servers, Timeout: 50 * time.Millisecond})
	testkit.Contains(t, found(t, brief, "a.example"), context.DeadlineExceeded.Error(), "its time")
	r := resolver(t, dns.Config{Servers: servers, Timeout: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, _, err := r.Lookup(ctx, "a.example"); !errors.Is(err, context.Canceled) {
		t.Errorf("its context: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, r.Close)
	testkit.Contains(t, found(t, r, "a.example"), context.Canceled.Error(), "when it closes")
	testkit.Contains(t, found(t, r, "a.example"), net.ErrClosed.Error(), "after Close")
}

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
