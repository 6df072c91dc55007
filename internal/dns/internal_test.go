package dns

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tarehq/tare/internal/testkit"
)

// The other family arrives at the moment at which the wait for it ends: its addresses count.
func TestAddressesThatArriveWithTheTimerCount(t *testing.T) {
	a, aaaa := dnsmessage.TypeA, dnsmessage.TypeAAAA
	of := map[dnsmessage.Type]netip.Addr{a: netip.MustParseAddr("10.0.0.1"), aaaa: netip.MustParseAddr("2001:db8::1")}
	for _, order := range [][2]dnsmessage.Type{{a, aaaa}, {aaaa, a}} {
		for range 100 { // select chooses at random
			results := make(chan records, 2)
			results <- records{family: order[0], addresses: []netip.Addr{of[order[0]]}, ttl: time.Minute}
			all := collect(results, records{isPartial: true}, 2, func(time.Duration) <-chan time.Time {
				results <- records{family: order[1], addresses: []netip.Addr{of[order[1]]}, ttl: time.Second}
				late := make(chan time.Time, 1)
				late <- time.Time{}
				return late
			})
			if len(all.addresses) != 2 || all.ttl != time.Second || all.isPartial {
				t.Fatalf("%v first: %v %v, partial: %v", order[0], all.addresses, all.ttl, all.isPartial)
			}
		}
	}
}

// A lookup that waits for others ends with its time, too.
func TestTimeOfALookupIncludesWaiting(t *testing.T) {
	r := testkit.Value(New(Config{Servers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}, Timeout: time.Millisecond}))(t)
	defer r.Close()
	for range maxLookups {
		r.slots <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, err := r.Lookup(ctx, "a.example"); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("%v, and the caller's context %v", err, ctx.Err())
	}
}
