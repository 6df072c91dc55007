package fcgi

import (
	"strings"
	"testing"
)

// The appended bytes match sections 3.3, 4 and 5 of the specification.
func TestAppendedBytesMatchSpecification(t *testing.T) {
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
		{"no content", AppendStream([]byte("before"), Stdout, 1, nil), "before"},
		{"end of a stream", AppendStreamEnd([]byte("before"), Stdout, 258), "before\x01\x06\x01\x02\x00\x00\x00\x00"},
		{"get values", AppendHeader(nil, Header{Type: GetValues, Length: 2}), "\x01\x09\x00\x00\x00\x02\x00\x00"},
		{"values", AppendValuesResult(nil, []byte("\x0f\x00FCGI_MPXS_CONNS")),
			"\x01\x0a\x00\x00\x00\x12\x00\x00\x0f\x01FCGI_MPXS_CONNS0"},
	} {
		if string(test.got) != test.want {
			t.Errorf("%s\n got %q\nwant %q", test.what, test.got, test.want)
		}
	}
}

func TestPutHeaderOverwritesHeader(t *testing.T) {
	b := []byte("--------rest")
	PutHeader(b, Header{Type: Stdout, ID: 1, Length: 4})
	if string(b) != "\x01\x06\x00\x01\x00\x04\x00\x00rest" {
		t.Errorf("%q", b)
	}
}

// A stream of any length is cut into as few records as possible, none of them empty.
func TestAppendStreamUsesFewestRecords(t *testing.T) {
	for _, size := range []int{0, 1, MaxContent - 1, MaxContent, MaxContent + 1, 2 * MaxContent, 3*MaxContent + 7} {
		content := strings.Repeat("0123456789abcdefg", size/17+1)[:size]
		b := AppendStreamEnd(AppendStream(nil, Stdout, 9, []byte(content)), Stdout, 9)
		records, got := 0, ""
		var r Reader
		for len(b) > 0 {
			p, n, err := r.Next(b)
			if err != nil || p.Type != Stdout || p.ID != 9 || p.Padding != 0 || r.Left() != 0 {
				t.Fatalf("%d bytes: %+v, %v", size, p.Header, err)
			}
			if b = b[n:]; p.Ends() != (len(b) == 0) {
				t.Fatalf("%d bytes: an empty record and %d bytes behind it", size, len(b))
			}
			records++
			got += string(p.Content)
		}
		if want := (size+MaxContent-1)/MaxContent + 1; got != content || records != want {
			t.Errorf("%d bytes: %d read from %d records, want %d", size, len(got), records, want)
		}
	}
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
	if h := parseHeader(b); int(h.Length) != len(b)-HeaderSize {
		t.Errorf("a length of %d for %d bytes", h.Length, len(b)-HeaderSize)
	}
}
