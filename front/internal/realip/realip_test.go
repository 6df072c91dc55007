package realip

import (
	"net/netip"
	"strings"
	"testing"
)

// Whatever the fields are, the address is the peer's, or one in the header after the last that is
// not trusted.
func FuzzForwarded(f *testing.F) {
	f.Add("10.0.0.1, 192.0.2.1", "10.2.2.2")
	f.Add("[::1]:80,,\t1.2.3.4:5", "x")
	trusts := &Rules{Header: "X-Forwarded-For", IsList: true, Recursive: true}
	trusts.From.Add(netip.MustParsePrefix("10.0.0.0/8"), 0)
	peer, stranger := netip.MustParseAddrPort("10.0.0.9:1"), netip.MustParseAddrPort("192.0.2.9:1")
	f.Fuzz(func(t *testing.T, first, second string) {
		header := map[string][]string{"X-Forwarded-For": {first, second}}
		if got, ok := trusts.Find(stranger, header); ok || got != stranger {
			t.Errorf("a stranger is trusted: %v", got)
		}
		got, ok := trusts.Find(peer, header)
		if !ok && got != peer {
			t.Errorf("%v from nowhere", got)
		}
		if ok && !strings.Contains(strings.ToLower(first+second), got.Addr().String()) && !got.Addr().Is6() {
			t.Errorf("%v is not in %q, %q", got, first, second)
		}
	})
}
