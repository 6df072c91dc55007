package fcgi

import (
	"errors"
	"fmt"
	"math"
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

// A recorder reads records as a user of Reader does: it keeps the unconsumed input and appends
// more.
type recorder struct {
	Reader
	testing.TB
	past bool // reads content past the Reader

	rest     []byte
	consumed int
	content  []byte // of the current record
	log      strings.Builder
}

// receive processes a piece and reports whether there was no error.
func (r *recorder) receive(piece []byte) bool {
	r.rest = extend(r.rest, piece)
	for {
		h, n, content, err := r.step()
		if n < 0 || n > len(r.rest) {
			r.Fatalf("%d of %d bytes consumed", n, len(r.rest))
		}
		at := r.consumed
		r.consumed, r.rest = at+n, r.rest[n:]
		switch r.content = append(r.content, content...); {
		case err != nil:
			r.log.WriteString(describe(err, at))
			return false
		case h.Type == 0:
			return true
		case r.Left() == 0 && len(r.content) != int(h.Length):
			r.Fatalf("%d bytes of a record of %d", len(r.content), h.Length)
		case r.Left() == 0:
			fmt.Fprintf(&r.log, "[%d/%d %q]", h.Type, h.ID, r.content)
			r.content = nil
		}
	}
}

// step reads the next piece.
func (r *recorder) step() (h Header, n int, content []byte, err error) {
	if !r.past {
		p, n, err := r.Next(r.rest)
		return p.Header, n, p.Content, err
	}
	if left := min(r.Left(), len(r.rest)); left > 0 {
		r.Consumed(left)
		return r.record, left, r.rest[:left], nil
	}
	if r.Left() > 0 {
		return Header{}, 0, nil, nil
	}
	h, padding, ok, err := r.Peek(r.rest)
	if err != nil || !ok {
		return Header{}, padding, nil, err
	}
	rest := r.rest[padding:]
	if h.Type.streams() && h.Length > 0 {
		rest = rest[:HeaderSize] // and content is read past the Reader
	}
	p, n, err := r.Next(rest)
	if err != nil {
		err = shiftError(err, padding)
	}
	if r.Left() > 0 {
		p.Header = h // more follows
	}
	return p.Header, padding + n, p.Content, err
}

func (r *recorder) String() string {
	if r.Left() > 0 {
		fmt.Fprintf(&r.log, "[%q and %d more", r.content, r.Left())
	}
	return fmt.Sprintf("%s consumed=%d", r.log.String(), r.consumed)
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

// readRecords describes everything that a user can observe of a connection's records, with each
// record in one piece.
func readRecords(t testing.TB, past bool) func([][]byte) string {
	return func(pieces [][]byte) string { return observe(&recorder{TB: t, past: past}, pieces) }
}

// receiver is a user of this package, which describes what it has received.
type receiver interface {
	receive(piece []byte) (again bool)
	String() string
}

func observe(r receiver, pieces [][]byte) string {
	for _, p := range pieces {
		if !r.receive(p) {
			break
		}
	}
	return r.String()
}

// A vector is one input and the expected description. The names give the section of the
// specification, or the class of defect.
type vector struct{ why, in, want string }

var readerVectors = []vector{
	{"nothing", "", " consumed=0"},
	{"3.3: a message", plain(BeginRequest, 1, "12345678"), `[1/1 "12345678"] consumed=16`},
	{"3.3: every byte of the numbers counts", plain(Stdin, 0xfedc, strings.Repeat("x", 300)), `[5/65244 "` +
		strings.Repeat("x", 300) + `"] consumed=308`},
	{"3.3: padding is passed over", record(Stdin, 1, "abc", 5) + plain(Stdin, 1, ""),
		`[5/1 "abc"][5/1 ""] consumed=24`},
	{"padding of 255", record(Stdout, 1, "abc", 255) + record(EndRequest, 1, "12345678", 255) + plain(Stdin, 1, ""),
		`[6/1 "abc"][3/1 "12345678"][5/1 ""] consumed=545`},
	{"padding at the end", record(EndRequest, 1, "12345678", 3), `[3/1 "12345678"] consumed=19`},
	{"several requests' records", plain(Stdin, 1, "a") + plain(Stdin, 2, "b") + plain(GetValues, 0, ""),
		`[5/1 "a"][5/2 "b"][9/0 ""] consumed=26`},
	{"content that looks like a header", plain(Stdin, 1, plain(Stdin, 2, "")),
		`[5/1 "\x01\x05\x00\x02\x00\x00\x00\xee"] consumed=16`},
	{"types that nobody knows are messages", plain(12, 1, "ab") + plain(255, 0, ""),
		`[12/1 "ab"][255/0 ""] consumed=18`},
	{"longest message", plain(GetValues, 0, strings.Repeat("q", maxMessage)), `[9/0 "` +
		strings.Repeat("q", maxMessage) + `"] consumed=4104`},

	{"cut off in the header", plain(BeginRequest, 1, "12345678")[:7], " consumed=0"},
	{"cut off behind a stream's header", plain(Stdin, 1, "abc")[:8], `["" and 3 more consumed=8`},
	{"cut off in the padding", record(Stdin, 1, "abc", 5)[:13], `[5/1 "abc"] consumed=13`},

	{"version 0", "\x00\x01\x00\x01\x00\x08\x00\x00", "fcgi: unsupported FastCGI version at 0 consumed=0"},
	{"version 2, seen at once", plain(Stdin, 1, "") + "\x02",
		`[5/1 ""]fcgi: unsupported FastCGI version at 8 consumed=8`},
	{"version behind padding", record(Stdin, 1, "a", 7) + "\x02\x01\x00\x01\x00\x00\x00\x00",
		`[5/1 "a"]fcgi: unsupported FastCGI version at 16 consumed=16`},
	{"type 0", plain(0, 1, ""), "fcgi: invalid record type 0 at 0 consumed=0"},
	{"message over the bound", plain(GetValues, 0, strings.Repeat("q", maxMessage+1)),
		"fcgi: message too long at 0 consumed=0"},
}

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

// Content for which there was no room is returned again.
func TestConsumedReturnsContentAgain(t *testing.T) {
	for _, padding := range []int{0, 3} {
		var r Reader
		in := []byte(record(Stdin, 1, "hello", padding) + plain(Stdin, 1, ""))
		got := ""
		for _, place := range []int{2, 1, 5} {
			p, n, err := r.Next(in)
			testkit.Must(t, err)
			used := min(place, len(p.Content))
			rest := len(p.Content) - used
			got += string(p.Content[:used]) + "|"
			r.Consumed(-rest)
			in = in[n-rest:]
		}
		if p, n, err := r.Next(in); got != "he|l|lo|" || !p.Ends() || n != padding+HeaderSize || err != nil {
			t.Errorf("padding of %d: %s, then %+v, %d consumed, %v", padding, got, p, n, err)
		}
	}
}

func TestParseBeginReadsRoleAndFlag(t *testing.T) {
	for in, want := range map[string]Begin{
		"\x00\x01\x00\x00\x00\x00\x00\x00": {Role: Responder},
		"\x00\x01\x01\x00\x00\x00\x00\x00": {Role: Responder, Keep: true},
		"\x00\x02\xfe\xff\xff\xff\xff\xff": {Role: Authorizer},
		"\x00\x03\xff\xff\xff\xff\xff\xff": {Role: Filter, Keep: true},
		"\x12\x34\x00\x00\x00\x00\x00\x00": {Role: 0x1234},
	} {
		testkit.Equal(t, testkit.Value(ParseBegin([]byte(in)))(t), want, in)
	}
	for _, in := range []string{"", "\x00\x01\x00\x00\x00\x00\x00", "\x00\x01\x00\x00\x00\x00\x00\x00\x00"} {
		testkit.Fails(ParseBegin([]byte(in)))(t, "not 8 bytes long", in)
	}
}

func TestParseEndReadsStatuses(t *testing.T) {
	for in, want := range map[string]End{
		"\x00\x00\x00\x00\x00\x00\x00\x00": {},
		"\x00\x00\x03\xaa\x00\xff\xff\xff": {App: 938},
		"\xff\xfe\xfd\xfc\x03\x00\x00\x00": {App: 0xfffefdfc, Status: UnknownRole},
		"\x00\x00\x00\x00\xff\x00\x00\x00": {Status: 255},
	} {
		testkit.Equal(t, testkit.Value(ParseEnd([]byte(in)))(t), want, in)
	}
	for _, in := range []string{"", "\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00\x00"} {
		testkit.Fails(ParseEnd([]byte(in)))(t, "not 8 bytes long", in)
	}
}

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
		testkit.Equal(t, string(test.got), test.want, test.what)
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
		testkit.Equal(t, got == content, true, size, "bytes are read again")
		testkit.Equal(t, records, (size+MaxContent-1)/MaxContent+1, size, "bytes: records")
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
		testkit.Equal(t, string(AppendPair([]byte("before"), test.name, test.value)), "before"+test.want)
		testkit.Equal(t, string(AppendPair(nil, []byte(test.name), []byte(test.value))), test.want)
	}
	testkit.Equal(t, string(appendLength(nil, math.MaxInt32)), "\xff\xff\xff\xff", "the greatest length")
}
