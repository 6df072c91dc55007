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

// A recorder reads records as a user of Reader does: it keeps the unconsumed input and appends
// more.
type recorder struct {
	Reader
	past bool // reads content past the Reader

	rest     []byte
	consumed int
	content  []byte // of the current record
	log      strings.Builder
	strange  string // a result that no input may have
}

// receive processes a piece and reports whether there was no error.
func (r *recorder) receive(piece []byte) bool {
	r.rest = extend(r.rest, piece)
	for {
		h, n, content, err := r.step()
		if n < 0 || n > len(r.rest) {
			r.strange = fmt.Sprintf("%d of %d bytes consumed", n, len(r.rest))
			return false
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
			r.strange = fmt.Sprintf("%d bytes of a record of %d", len(r.content), h.Length)
			return false
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
	return func(pieces [][]byte) string {
		r := recorder{past: past}
		for _, p := range pieces {
			if !r.receive(p) {
				break
			}
		}
		if r.strange != "" {
			t.Fatalf("%q: %s", pieces, r.strange)
		}
		return r.String()
	}
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
	{"padding of an empty record", record(Stdin, 1, "", 8) + plain(AbortRequest, 1, ""),
		`[5/1 ""][2/1 ""] consumed=24`},
	{"padding at the end", record(EndRequest, 1, "12345678", 3), `[3/1 "12345678"] consumed=19`},
	{"padding at the end of a stream", record(Stdin, 1, "", 3), `[5/1 ""] consumed=11`},
	{"records of one byte", plain(Params, 1, "a") + plain(Params, 1, "b") + plain(Params, 1, ""),
		`[4/1 "a"][4/1 "b"][4/1 ""] consumed=26`},
	{"several requests' records", plain(Stdin, 1, "a") + plain(Stdin, 2, "b") + plain(GetValues, 0, ""),
		`[5/1 "a"][5/2 "b"][9/0 ""] consumed=26`},
	{"content that looks like a header", plain(Stdin, 1, plain(Stdin, 2, "")),
		`[5/1 "\x01\x05\x00\x02\x00\x00\x00\xee"] consumed=16`},
	{"types that nobody knows are messages", plain(12, 1, "ab") + plain(255, 0, ""),
		`[12/1 "ab"][255/0 ""] consumed=18`},
	{"longest message", plain(GetValues, 0, strings.Repeat("q", maxMessage)), `[9/0 "` +
		strings.Repeat("q", maxMessage) + `"] consumed=4104`},

	{"cut off in the header", plain(BeginRequest, 1, "12345678")[:7], " consumed=0"},
	{"cut off in a message", plain(BeginRequest, 1, "12345678")[:15], " consumed=0"},
	{"cut off behind a stream's header", plain(Stdin, 1, "abc")[:8], `["" and 3 more consumed=8`},
	{"cut off in a stream's content", plain(Stdin, 1, "abc")[:10], `["ab" and 1 more consumed=10`},
	{"cut off in the padding", record(Stdin, 1, "abc", 5)[:13], `[5/1 "abc"] consumed=13`},

	{"version 0", "\x00\x01\x00\x01\x00\x08\x00\x00", "fcgi: unsupported FastCGI version at 0 consumed=0"},
	{"version 2, seen at once", plain(Stdin, 1, "") + "\x02",
		`[5/1 ""]fcgi: unsupported FastCGI version at 8 consumed=8`},
	{"version behind padding", record(Stdin, 1, "a", 7) + "\x02\x01\x00\x01\x00\x00\x00\x00",
		`[5/1 "a"]fcgi: unsupported FastCGI version at 16 consumed=16`},
	{"type 0", plain(0, 1, ""), "fcgi: invalid record type 0 at 0 consumed=0"},
	{"type 0 behind padding", record(EndRequest, 1, "", 1) + plain(0, 0, "abc"),
		`[3/1 ""]fcgi: invalid record type 0 at 9 consumed=9`},
	{"message over the bound", plain(GetValues, 0, strings.Repeat("q", maxMessage+1)),
		"fcgi: message too long at 0 consumed=0"},
	{"message over the bound, behind padding", record(Stdin, 1, "", 4) +
		plain(GetValues, 0, strings.Repeat("q", 1<<16-1))[:8],
		`[5/1 ""]fcgi: message too long at 12 consumed=12`},
}

func TestReaderReadsVectorsAtEverySplit(t *testing.T) {
	for _, v := range readerVectors {
		t.Run(v.why, func(t *testing.T) {
			for _, past := range []bool{false, true} {
				if got := testkit.EverySplit(t, []byte(v.in), readRecords(t, past)); got != v.want {
					t.Errorf("content read past: %v\ninput %.80q\n got %s\nwant %s", past, v.in, got, v.want)
				}
			}
		})
	}
}

// A record of maximum length is read in pieces.
func TestReaderReadsLongestRecordInPieces(t *testing.T) {
	content := strings.Repeat("0123456789abcde", MaxContent/15)
	in := []byte(record(Stdin, 1, content, 255) + plain(Stdin, 1, ""))
	var r Reader
	got := ""
	for len(in) > 0 {
		p, n, err := r.Next(in[:min(len(in), 1000)])
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		if p.Ends() != (p.Type == Stdin && p.Length == 0) {
			t.Errorf("Ends of a piece of %d bytes of %d: %v", len(p.Content), p.Length, p.Ends())
		}
		got += string(p.Content)
		in = in[n:]
	}
	if got != content || r.Left() != 0 {
		t.Errorf("%d bytes read of %d, %d left", len(got), len(content), r.Left())
	}
}

// Parts of a stream are returned as they arrive, a message only when it is complete.
func TestReaderReturnsMessagesWhole(t *testing.T) {
	var r Reader
	in := []byte(plain(Stdin, 1, "hello"))
	p, n, err := r.Next(in[:10])
	if string(p.Content) != "he" || p.Length != 5 || n != 10 || r.Left() != 3 || p.Ends() || err != nil {
		t.Errorf("%+v, %d consumed, %d left, %v", p, n, r.Left(), err)
	}
	if &p.Content[0] != &in[8] {
		t.Error("the content is a copy")
	}
	if p, n, err = r.Next(in[10:]); string(p.Content) != "llo" || n != 3 || r.Left() != 0 || err != nil {
		t.Errorf("%+v, %d consumed, %d left, %v", p, n, r.Left(), err)
	}
	message := []byte(plain(EndRequest, 1, "12345678"))
	if p, n, err = r.Next(message[:15]); p.Type != 0 || n != 0 || err != nil {
		t.Errorf("%+v, %d consumed, %v", p, n, err)
	}
	if p, n, err = r.Next(message); p.Type != EndRequest || p.Ends() || n != 16 || err != nil {
		t.Errorf("%+v, %d consumed, %v", p, n, err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
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

// Peek returns the same header repeatedly, and consumes padding once.
func TestPeekConsumesOnlyPadding(t *testing.T) {
	var r Reader
	in := []byte(record(Stdin, 1, "abc", 4) + plain(Stdin, 1, ""))
	if _, n, err := r.Next(in); n != 11 || err != nil {
		t.Fatal(n, err)
	}
	in = in[11:]
	if _, n, ok, err := r.Peek(in[:2]); n != 2 || ok || err != nil {
		t.Errorf("in the padding: %d consumed, %v, %v", n, ok, err)
	}
	want := Header{Type: Stdin, ID: 1}
	if h, n, ok, err := r.Peek(in[2:]); h != want || n != 2 || !ok || err != nil {
		t.Errorf("%+v, %d consumed, %v, %v", h, n, ok, err)
	}
	if h, n, ok, err := r.Peek(in[4:]); h != want || n != 0 || !ok || err != nil {
		t.Errorf("the second time: %+v, %d consumed, %v, %v", h, n, ok, err)
	}
	if p, n, err := r.Next(in[4:]); !p.Ends() || n != 8 || err != nil {
		t.Errorf("%+v, %d consumed, %v", p, n, err)
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
		if got, err := ParseBegin([]byte(in)); got != want || err != nil {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "\x00\x01\x00\x00\x00\x00\x00", "\x00\x01\x00\x00\x00\x00\x00\x00\x00"} {
		if got, err := ParseBegin([]byte(in)); err == nil || got != (Begin{}) {
			t.Errorf("%q: %+v", in, got)
		}
	}
}

func TestParseEndReadsStatuses(t *testing.T) {
	for in, want := range map[string]End{
		"\x00\x00\x00\x00\x00\x00\x00\x00": {},
		"\x00\x00\x03\xaa\x00\xff\xff\xff": {App: 938},
		"\xff\xfe\xfd\xfc\x03\x00\x00\x00": {App: 0xfffefdfc, Status: UnknownRole},
		"\x00\x00\x00\x00\xff\x00\x00\x00": {Status: 255},
	} {
		if got, err := ParseEnd([]byte(in)); got != want || err != nil {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00\x00"} {
		if got, err := ParseEnd([]byte(in)); err == nil || got != (End{}) {
			t.Errorf("%q: %+v", in, got)
		}
	}
}

func TestStatusHasName(t *testing.T) {
	for status, want := range map[Status]string{
		Complete: "request complete", CantMultiplex: "cannot multiplex", Overloaded: "overloaded",
		UnknownRole: "unknown role", 4: "unknown status", 255: "unknown status",
	} {
		if got := status.String(); got != want {
			t.Errorf("status %d: %q", uint8(status), got)
		}
	}
}
