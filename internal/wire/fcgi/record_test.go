package fcgi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// record makes a record without the package's own functions: a Reader tested with them would share
// their faults. A Reader must ignore its padding.
func record(t Type, id uint16, content string, padding int) string {
	header := []byte{1, byte(t), byte(id >> 8), byte(id), byte(len(content) >> 8), byte(len(content)), byte(padding),
		0xee}
	return string(header) + content + strings.Repeat("\xff", padding)
}

// plain returns a record without padding.
func plain(t Type, id uint16, content string) string { return record(t, id, content, 0) }

// extend appends in new memory of exactly that size, so that reading past the end panics.
func extend(b, more []byte) []byte {
	return append(append(make([]byte, 0, len(b)+len(more)), b...), more...)
}

// describe describes an error, with its offset in the whole input.
func describe(err error, base int) string {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Sprintf("%T", err)
	}
	large := ""
	if e.TooLarge {
		large = " (too large)"
	}
	return fmt.Sprintf("%v%s at %d", e, large, base+e.Offset)
}

// A vector is one input and the expected description. The names give the section of the
// specification, or the class of defect.
type vector struct{ why, in, want string }

// Five types are streams; each record of the others is independent. Records of unknown types are
// also read in pieces, because they may have any size.
func TestOnlyStreamsAreReadInPieces(t *testing.T) {
	for i := 1; i < 256; i++ {
		kind := Type(i)
		stream := slices.Contains([]Type{Params, Stdin, Stdout, Stderr, Data}, kind)
		pieces := stream || kind > UnknownType
		var r Reader
		if p, n, err := r.Next([]byte(plain(kind, 1, "abc")[:10])); (p.Type == kind) != pieces ||
			(n == 10) != pieces || err != nil {
			t.Errorf("part of a record of type %d: %+v, %d consumed, %v", kind, p, n, err)
		}
		r = Reader{}
		if p, n, err := r.Next([]byte(plain(kind, 1, ""))); p.Type != kind || p.Ends() != stream || n != HeaderSize ||
			err != nil {
			t.Errorf("empty record of type %d: %+v, ends: %v, %d consumed, %v", kind, p, p.Ends(), n, err)
		}
	}
}

// The appended bytes match sections 3.3, 4 and 5 of the specification.
func TestAppendedBytesMatchSpecification(t *testing.T) {
	full := strings.Repeat("x", MaxContent)
	for _, test := range []struct {
		what string
		got  []byte
		want string
	}{
		{"header", AppendHeader(nil, Header{Type: Stdout, ID: 0x1234, Length: 0x5678, Padding: 0x9a}),
			"\x01\x06\x12\x34\x56\x78\x9a\x00"},
		{"begin", AppendBegin(nil, 1, Begin{Role: Responder}),
			"\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"},
		{"begin, kept", AppendBegin(nil, 0xfffe, Begin{Role: 0x1203, Keep: true}),
			"\x01\x01\xff\xfe\x00\x08\x00\x00\x12\x03\x01\x00\x00\x00\x00\x00"},
		{"abort", AppendAbort(nil, 258), "\x01\x02\x01\x02\x00\x00\x00\x00"},
		{"end", AppendEnd(nil, 1, End{}), "\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"end, refused", AppendEnd(nil, 258, End{App: 0x12345678, Status: Overloaded}),
			"\x01\x03\x01\x02\x00\x08\x00\x00\x12\x34\x56\x78\x02\x00\x00\x00"},
		{"unknown type", AppendUnknownType(nil, 0xfe),
			"\x01\x0b\x00\x00\x00\x08\x00\x00\xfe\x00\x00\x00\x00\x00\x00\x00"},
		{"params", AppendStream(nil, Params, 1, []byte(ab)), "\x01\x04\x00\x01\x00\x04\x00\x00\x01\x01Ab"},
		{"stdin", AppendStream(nil, Stdin, 1, []byte("in")), "\x01\x05\x00\x01\x00\x02\x00\x00in"},
		{"stdout", AppendStream(nil, Stdout, 1, []byte("out")), "\x01\x06\x00\x01\x00\x03\x00\x00out"},
		{"stderr", AppendStream(nil, Stderr, 258, []byte("err")), "\x01\x07\x01\x02\x00\x03\x00\x00err"},
		{"data", AppendStream(nil, Data, 1, []byte{0}), "\x01\x08\x00\x01\x00\x01\x00\x00\x00"},
		{"a full record", AppendStream(nil, Stdout, 1, []byte(full)), "\x01\x06\x00\x01\xff\xff\x00\x00" + full},
		{"a byte more", AppendStream(nil, Stdout, 1, []byte(full+"x")),
			"\x01\x06\x00\x01\xff\xff\x00\x00" + full + "\x01\x06\x00\x01\x00\x01\x00\x00x"},
		{"no content", AppendStream([]byte("before"), Stdout, 1, nil), "before"},
		{"end of a stream", AppendStreamEnd([]byte("before"), Stdout, 258), "before\x01\x06\x01\x02\x00\x00\x00\x00"},
		{"get values", AppendHeader(nil, Header{Type: GetValues, Length: 2}), "\x01\x09\x00\x00\x00\x02\x00\x00"},
		{"values", AppendValuesResult(nil, []byte("\x0f\x00FCGI_MPXS_CONNS")),
			"\x01\x0a\x00\x00\x00\x12\x00\x00\x0f\x01FCGI_MPXS_CONNS0"},
	} {
		testkit.Equal(t, string(test.got), test.want, test.what)
	}
	end := testkit.Value(ParseEnd([]byte("\xff\xfe\xfd\xfc\x03RES")))(t)
	testkit.Equal(t, end, End{App: 0xfffefdfc, Status: UnknownRole}, "read")
	testkit.Fails(ParseEnd(make([]byte, 9)))(t, "not 8 bytes long")
}

func TestAppendValuesResultOmitsUnknownNames(t *testing.T) {
	query := func(names ...string) (b []byte) {
		for _, name := range names {
			b = AppendPair(b, name, "")
		}
		return b
	}
	for _, test := range []struct {
		why   string
		query []byte
		want  string
	}{
		{"4.1: all", query("FCGI_MAX_CONNS", "FCGI_MAX_REQS", "FCGI_MPXS_CONNS"), `["FCGI_MPXS_CONNS=0"]`},
		{"among others", query("FCGI_MPXS_CONNS", "FCGI_OTHER", ""), `["FCGI_MPXS_CONNS=0"]`},
		{"empty query", nil, `[]`},
		{"nothing is known", query("FCGI_mpxs_conns", "MPXS_CONNS"), `[]`},
		{"a value in the query", AppendPair(nil, "FCGI_MPXS_CONNS", "7"), `["FCGI_MPXS_CONNS=0"]`},
		{"up to a fault", append(query("FCGI_MPXS_CONNS"), "\x7f\x00FCGI_MPXS_CONNS"...), `["FCGI_MPXS_CONNS=0"]`},
	} {
		b := AppendValuesResult([]byte("before"), test.query)
		var r Reader
		p, n, err := r.Next(b[len("before"):])
		if err != nil || p.Type != GetValuesResult || p.ID != 0 || n != len(b)-len("before") ||
			pairs(p.Content) != test.want {
			t.Errorf("%s: %+v with %s, %d of %d bytes, %v", test.why, p.Header, pairs(p.Content), n, len(b), err)
		}
	}
	// The longest possible query.
	b := AppendValuesResult(nil, query(strings.Split(strings.Repeat("FCGI_MPXS_CONNS,", maxMessage/18), ",")...))
	testkit.Equal(t, int(parseHeader(b).Length), len(b)-HeaderSize)
}

// long is a string whose length takes four bytes.
var long = strings.Repeat("0123456789abcdef", 20)

var pairVectors = []vector{
	{"an empty list", "", `[]`},
	{"3.4: lengths of one byte", "\x0b\x02SERVER_PORT80\x0b\x0eSERVER_ADDR199.170.183.42",
		`["SERVER_PORT=80" "SERVER_ADDR=199.170.183.42"]`},
	{"3.4: a value's length of four bytes", "\x01\x80\x00\x01\x40A" + long, `["A=` + long + `"]`},
	{"3.4: a name's length of four bytes", "\x80\x00\x01\x40\x01" + long + "b", `["` + long + `=b"]`},
	{"3.4: both", "\x80\x00\x01\x40\x80\x00\x01\x40" + long + long + ab, `["` + long + "=" + long + `" "A=b"]`},
	{"127 bytes have a length of one", "\x7f\x7f" + long[:127] + long[:127], `["` + long[:127] + "=" + long[:127] + `"]`},
	{"128 bytes have a length of four", "\x80\x00\x00\x80\x80\x00\x00\x80" + long[:128] + long[:128], `["` +
		long[:128] + "=" + long[:128] + `"]`},
	{"empty names and values", "\x00\x00\x00\x01b\x01\x00A\x80\x00\x00\x00\x00\x00\x80\x00\x00\x00",
		`["=" "=b" "A=" "=" "="]`},
	{"every byte of a length counts", "\x80\x01\x02\x03\x01" + strings.Repeat("n", 0x10203) + "v", `["` +
		strings.Repeat("n", 0x10203) + `=v"]`},
	{"any bytes", "\x02\x03\x00\xff\r\n\x80", `["\x00\xff=\r\n\x80"]`},

	{"truncated name length", ab + "\x80\x00\x00", `["A=b" "fcgi: truncated name length at 4"]`},
	{"truncated value length", ab + "\x01\x80\x00\x00", `["A=b" "fcgi: truncated value length at 4"]`},
	{"name cut off", ab + "\x03\x00AB", `["A=b" "fcgi: parameter exceeds its list at 4"]`},
	{"value cut off", "\x01\x03Abc", `["fcgi: parameter exceeds its list at 0"]`},
	{"greatest lengths", "\xff\xff\xff\xff\xff\xff\xff\xffAb", `["fcgi: parameter exceeds its list at 0"]`},
	{"lengths whose sum wraps at 32 bits", "\xff\xff\xff\xff\x80\x00\x00\x01Ab",
		`["fcgi: parameter exceeds its list at 0"]`},
	{"lengths whose sum wraps with what is before", ab + "\x01\xff\xff\xff\xfdAb",
		`["A=b" "fcgi: parameter exceeds its list at 4"]`},
}

// checkPairs reads a list and returns an error if the result is impossible, or if its pairs, appended
// to another list, are not read or need more bytes.
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
