package nginxconf

import (
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

// Ranges that overlap others replace their addresses, and deleted ones leave the rest.
func TestRangesReplaceAndDelete(t *testing.T) {
	const last = 40
	for round := range 200 {
		var ranges geoRanges
		want := make(map[int]conf.Text)
		for i := range 12 {
			first := rand.IntN(last)
			end := first + rand.IntN(last-first)
			r := geoRange{netip.AddrFrom4([4]byte{10, 0, 0, byte(first)}),
				netip.AddrFrom4([4]byte{10, 0, 0, byte(end)}), conf.Text(strconv.Itoa(i))}
			isDeleted, had := i%3 == 2, false
			for a := first; a <= end; a++ {
				_, ok := want[a]
				had = had || ok
				if want[a] = r.to; isDeleted {
					delete(want, a)
				}
			}
			if found := ranges.cut(r); found != had {
				t.Fatalf("round %d: an address of %v existed: %v", round, r, had)
			}
			if !isDeleted {
				ranges.insert(r)
			}
		}
		got := make(map[int]conf.Text)
		for _, c := range ranges.cases() {
			net := netip.MustParsePrefix(c.From)
			for a := net.Addr(); net.Contains(a); a = a.Next() {
				got[int(a.As4()[3])] = c.To
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("round %d: %v, want %v", round, got, want)
		}
	}
}
