package nginxconf

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

func TestFlagsAreParsed(t *testing.T) {
	for text, want := range map[string]bool{"on": true, "ON": true, "off": false, "Off": false} {
		if got, err := parseFlag(text); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yes", "1", "onn"} {
		if _, err := parseFlag(text); err == nil {
			t.Errorf("%q: want an error", text)
		}
	}
}

func TestRangesBecomePrefixes(t *testing.T) {
	for text, want := range map[string][]string{
		"10.0.0.0-10.0.0.255":     {"10.0.0.0/24"},
		"10.0.0.1-10.0.0.4":       {"10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/32"},
		"10.0.0.7-10.0.0.7":       {"10.0.0.7/32"},
		"0.0.0.0-255.255.255.255": {"0.0.0.0/0"},
		"::-::1":                  {"::/127"},
	} {
		r, err := parseRange(text)
		if err != nil {
			t.Fatal(err)
		}
		got := r.networks()
		if len(got) != len(want) {
			t.Fatalf("%s is %v; want %v", text, got, want)
		}
		for i := range want {
			if got[i].String() != want[i] {
				t.Errorf("%s is %v; want %v", text, got, want)
			}
		}
	}
	for _, text := range []string{"", "10.0.0.1", "10.0.0.2-10.0.0.1", "10.0.0.1-::1", "a-b"} {
		if got, err := parseRange(text); err == nil {
			t.Errorf("%q is %v; want an error", text, got)
		}
	}
}

// Ranges that overlap others replace their addresses. A range is deleted only as a whole, but in
// each network of 65,536 addresses on its own.
func TestRangesReplaceAndDelete(t *testing.T) {
	const last, second = 9, 5 // second is the first address of the second network
	addr := func(i int) netip.Addr {
		n := uint32(10<<24+1<<16) + uint32(i) - second
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
	}
	deleted := 0
	for round := range 500 {
		var ranges geoRanges
		want := make(map[netip.Addr]conf.Text)
		remove := func(first, end int) bool { // in one network
			to := want[addr(first)]
			if to == "" || first != 0 && first != second && want[addr(first-1)] == to ||
				end+1 != second && want[addr(end+1)] == to {
				return false
			}
			for i := first; i <= end; i++ {
				if want[addr(i)] != to {
					return false
				}
			}
			for i := first; i <= end; i++ {
				delete(want, addr(i))
			}
			deleted++
			return true
		}
		for i := range 12 {
			first := rand.IntN(last)
			end := first + rand.IntN(last-first)
			r := geoRange{addr(first), addr(end), conf.Text(strconv.Itoa(i))}
			if i%2 == 0 {
				ranges.cut(r)
				ranges.insert(r)
				for a := first; a <= end; a++ {
					want[addr(a)] = r.to
				}
				continue
			}
			had := true
			if first < second {
				had = remove(first, min(end, second-1))
			}
			if end >= second {
				had = remove(max(first, second), end) && had
			}
			if found := ranges.remove(r); found != had {
				t.Fatalf("round %d: %v was deleted: %v", round, r, found)
			}
		}
		got := make(map[netip.Addr]conf.Text)
		for _, c := range ranges.cases() {
			net := netip.MustParsePrefix(c.From)
			for a := net.Addr(); net.Contains(a); a = a.Next() {
				got[a] = c.To
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("round %d: %v, want %v", round, got, want)
		}
	}
	if deleted == 0 {
		t.Error("nothing was deleted")
	}
}
