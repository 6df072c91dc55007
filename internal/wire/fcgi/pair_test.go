package fcgi

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// long is a string whose length takes four bytes.
var long = strings.Repeat("0123456789abcdef", 20)

var pairVectors = []vector{
	{"an empty list", "", `[]`},
	{"3.4: lengths of one byte", "\x0b\x02SERVER_PORT80\x0b\x0eSERVER_ADDR199.170.183.42",
		`["SERVER_PORT=80" "SERVER_ADDR=199.170.183.42"]`},
	{"3.4: a value's length of four bytes", "\x01\x80\x00\x01\x40A" + long, `["A=` + long + `"]`},
	{"3.4: a name's length of four bytes", "\x80\x00\x01\x40\x01" + long + "b", `["` + long + `=b"]`},
	{"3.4: both", "\x80\x00\x01\x40\x80\x00\x01\x40" + long + long + ab, `["` + long + "=" + long + `" "A=b"]`},
	{"127 bytes have a length of one", "\x7f\x7f" + long[:127] + long[:127], `["` + long[:127] + "=" + long[:127] +
		`"]`},
	{"128 bytes have a length of four", "\x80\x00\x00\x80\x80\x00\x00\x80" + long[:128] + long[:128], `["` +
		long[:128] + "=" + long[:128] + `"]`},
	{"short lengths of four bytes", "\x80\x00\x00\x01\x80\x00\x00\x00A", `["A="]`},
	{"empty names and values", "\x00\x00\x00\x01b\x01\x00A\x80\x00\x00\x00\x00", `["=" "=b" "A=" "="]`},
	{"every byte of a length counts", "\x80\x01\x02\x03\x01" + strings.Repeat("n", 0x10203) + "v", `["` +
		strings.Repeat("n", 0x10203) + `=v"]`},
	{"any bytes", "\x02\x03\x00\xff\r\n\x80", `["\x00\xff=\r\n\x80"]`},

	{"truncated name length", ab + "\x80\x00\x00", `["A=b" "fcgi: truncated name length at 4"]`},
	{"name's length alone", "\x01", `["fcgi: truncated value length at 0"]`},
	{"truncated value length", ab + "\x01\x80\x00\x00", `["A=b" "fcgi: truncated value length at 4"]`},
	{"truncated value length behind a long one", "\x80\x00\x00\x01", `["fcgi: truncated value length at 0"]`},
	{"name cut off", ab + "\x03\x00AB", `["A=b" "fcgi: parameter exceeds its list at 4"]`},
	{"value cut off", "\x01\x03Abc", `["fcgi: parameter exceeds its list at 0"]`},
	{"name one byte too long", "\x02\x00A", `["fcgi: parameter exceeds its list at 0"]`},
	{"greatest lengths", "\xff\xff\xff\xff\xff\xff\xff\xffAb", `["fcgi: parameter exceeds its list at 0"]`},
	{"greatest name", "\xff\xff\xff\xff\x01Ab", `["fcgi: parameter exceeds its list at 0"]`},
	{"greatest value", "\x01\xff\xff\xff\xffAb", `["fcgi: parameter exceeds its list at 0"]`},
	{"lengths whose sum wraps at 32 bits", "\xff\xff\xff\xff\x80\x00\x00\x01Ab",
		`["fcgi: parameter exceeds its list at 0"]`},
	{"lengths whose sum wraps with what is before", ab + "\x01\xff\xff\xff\xfdAb",
		`["A=b" "fcgi: parameter exceeds its list at 4"]`},
}

func TestNextPairReadsVectors(t *testing.T) {
	for _, v := range pairVectors {
		t.Run(v.why, func(t *testing.T) {
			if got := pairs(extend(nil, []byte(v.in))); got != v.want {
				t.Errorf("%.80q\n got %.200s\nwant %.200s", v.in, got, v.want)
			}
		})
	}
}

// A truncated list returns the pairs before the cut, and an error with the offset of the next one.
func TestNextPairReportsTruncatedPair(t *testing.T) {
	for _, v := range pairVectors {
		for cut := range min(len(v.in), 1000) {
			list := extend(nil, []byte(v.in[:cut]))
			if err := checkPairs(list); err != nil {
				t.Errorf("%q: %v", list, err)
			}
		}
	}
}

// checkPairs reads a list and returns an error if the result is impossible.
func checkPairs(list []byte) error {
	var again, minimal []byte
	at := 0
	for at < len(list) {
		p, next, err := NextPair(list, at)
		if err != nil {
			var e *Error
			if next != at || p != (Pair{}) || !errors.As(err, &e) || e.Offset != at || e.TooLarge {
				return fmt.Errorf("pair %v, next %d at %d: %w", p, next, at, err)
			}
			break
		}
		head := int(p.Name.Start) - at
		if head < 2 || head > 8 || p.Name.End < p.Name.Start || p.Value.Start != p.Name.End ||
			p.Value.End < p.Value.Start ||
			int(p.Value.End) != next || next > len(list) {
			return fmt.Errorf("pair %v, next %d at %d of %d", p, next, at, len(list))
		}
		minimal = append(minimal, list[at:next]...)
		again = AppendPair(again, p.Name.In(list), p.Value.In(list))
		at = next
	}
	if len(again) > len(minimal) {
		return fmt.Errorf("%d bytes are written as %d", len(minimal), len(again))
	}
	if first, second := pairs(minimal), pairs(again); first != second {
		return fmt.Errorf("%s is written as %s", first, second)
	}
	return nil
}

func TestAppendedPairsAreRead(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"", "", "\x00\x00"},
		{"A", "b", "\x01\x01Ab"},
		{long[:127], long[:127], "\x7f\x7f" + long[:127] + long[:127]},
		{long[:128], "", "\x80\x00\x00\x80\x00" + long[:128]},
		{"", long[:128], "\x00\x80\x00\x00\x80" + long[:128]},
		{long, long, "\x80\x00\x01\x40\x80\x00\x01\x40" + long + long},
		{"A", strings.Repeat("x", 0x12345), "\x01\x80\x01\x23\x45A" + strings.Repeat("x", 0x12345)},
	} {
		if got := string(AppendPair([]byte("before"), test.name, test.value)); got != "before"+test.want {
			t.Errorf("%.20q=%.20q is written as %.40q", test.name, test.value, got)
		}
		if got := AppendPair(nil, []byte(test.name), []byte(test.value)); !bytes.Equal(got, []byte(test.want)) {
			t.Errorf("%.20q=%.20q is written as %.40q", test.name, test.value, got)
		}
	}
	if got := string(appendLength(nil, math.MaxInt32)); got != "\xff\xff\xff\xff" {
		t.Errorf("the greatest length is written as %q", got)
	}
}
