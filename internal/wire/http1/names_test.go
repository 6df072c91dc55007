package http1

import (
	"fmt"
	"math/rand/v2"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/tarehq/tare/internal/testkit"
)

func TestNamesAreCanonical(t *testing.T) {
	for n, name := range names {
		testkit.Equal(t, textproto.CanonicalMIMEHeaderKey(name), name)
		if n == 0 {
			continue
		}
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			testkit.Equal(t, LookupName([]byte(spelling)), Name(n), spelling)
		}
		variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		testkit.Equal(t, LookupVariable([]byte(variable)), Name(n), variable)
		if got := LookupName([]byte("x" + name[1:])); got != NameUnknown &&
			!strings.EqualFold(got.String(), "x"+name[1:]) {
			t.Errorf("x%s looked up as %q", name[1:], got)
		}
	}
	for _, other := range []string{"", "x", "Hosts", "Hos\x14", "Content_Length", "content-lengthy"} {
		testkit.Equal(t, LookupName([]byte(other)), NameUnknown, other)
	}
	for _, other := range []string{"", "X", "_", "HOSTS", "CONTENT__LENGTH", strings.Repeat("X", maxName),
		strings.Repeat("X", maxName+1), strings.Repeat("_", 1000)} {
		testkit.Equal(t, LookupVariable([]byte(other)), NameUnknown, other)
	}
}

func TestNamesDoNotCollide(t *testing.T) {
	collision := collides(lengthScale, firstScale, middleScale, secondScale)
	if collision == "" {
		return
	}
	t.Errorf("%s collides with an earlier name", collision)
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 1_000_000 {
		a, b, c, d := 1+rnd.IntN(255), 1+rnd.IntN(255), 1+rnd.IntN(255), 1+rnd.IntN(255)
		if collides(a, b, c, d) == "" {
			t.Logf("these factors separate all names: %d %d %d %d", a, b, c, d)
			return
		}
	}
	t.Log("no factors found: enlarge nameSlots")
}

func collides(length, first, middle, second int) string {
	var used [nameSlots]bool
	for _, s := range names[1:] {
		slot := slotBy([]byte(s), length, first, middle, second)
		if used[slot] {
			return s
		}
		used[slot] = true
	}
	return ""
}

func TestConnectionFieldsAndPlainNames(t *testing.T) {
	for name, want := range map[string]bool{
		"Connection": true, "Proxy-Authorization": true, "Proxy-Authenticate": true, "Te": true, "Upgrade": true,
		"Content-Length": false, "Authorization": false, "Host": false, "Expect": false,
	} {
		testkit.Equal(t, ConcernsConnection(name), want, name)
	}
	for name, want := range map[string]bool{"X-Real-Ip": true, "": true, "x9": true, "X_Real_Ip": false,
		"X.Real.Ip": false, "Ä": false, "a b": false} {
		testkit.Equal(t, PlainName(name), want, name)
	}
}

// ConcernsConnection of a field is that of its name.
func TestFieldsOfHeadsConcernTheConnection(t *testing.T) {
	for _, name := range append([]string{"Proxy-Connection", "X-A"}, names[1:]...) {
		head := []byte(strings.ToLower(name))
		f := Field{Name: SpanOf(0, len(head)), Known: LookupName(head)}
		testkit.Equal(t, f.ConcernsConnection(head), ConcernsConnection(name), name)
	}
}

func TestCollectorGroupsValues(t *testing.T) {
	for _, room := range []int{0, 2, 4, 9} {
		c := Collect(nil, 3, make([]string, 0, room))
		c.Add(NameUnknown, "X-A", "1")
		c.Add(NameContentType, "Content-Type", "2")
		c.Add(NameUnknown, "X-A", "3")
		c.Add(NameContentType, "Content-Type", "4")
		c.Add(NameUnknown, "X-B", "5")
		c.Add(NameUnknown, "X-C", "6") // one more than expected
		c.Fields["X-B"] = append(c.Fields["X-B"], "7")
		testkit.Equal(t, fmt.Sprint(c.Fields), "map[Content-Type:[2 4] X-A:[1 3] X-B:[5 7] X-C:[6]]", "with room for", room)
	}
	testkit.Equal(t, Collect(nil, -1, nil).Fields, map[string][]string{}, "of nothing")
}

// Parts match their spans, in any order, and parts of a large text hold little of it.
func TestTextPartsMatchSpans(t *testing.T) {
	for _, size := range []int{0, 1, ownText, wholeText, wholeText + 1, 10 * wholeText, 1 << 20} {
		b := []byte(strings.Repeat("0123456789abcdef-", size/17+1)[:size])
		text := TextOf(b)
		testkit.Equal(t, text.IsWhole(), size <= wholeText, size, "bytes: whole")
		for range 1000 {
			start := rand.IntN(size + 1)
			s := SpanOf(start, start+rand.IntN(min(size-start, 2*ownText)+1))
			got := text.Of(s)
			if got != string(s.In(b)) {
				t.Fatalf("%d bytes, %v: %q", size, s, got)
			}
			if len(text.piece) > max(wholeText, pieceText) {
				t.Fatalf("%d bytes: a piece of %d", size, len(text.piece))
			}
			if len(got) > 0 && size > wholeText && len(got) < ownText {
				from := uintptr(unsafe.Pointer(unsafe.StringData(got))) -
					uintptr(unsafe.Pointer(unsafe.StringData(text.piece)))
				if from > pieceText {
					t.Fatalf("%d bytes, %v: not in the piece", size, s)
				}
			}
		}
	}
}

// The classes are specified a second time, byte by byte, as in the RFCs.
func TestClassesFollowRFCs(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	isAlnum := func(c byte) bool {
		return strings.IndexByte(letters+strings.ToUpper(letters), c) >= 0 || '0' <= c && c <= '9'
	}
	for i := range 256 {
		c := byte(i)
		for _, want := range []struct {
			name  string
			class class
			in    bool
		}{
			{"token", tokenByte, isAlnum(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0},
			{"target", targetByte, c > ' ' && c != 0x7f},
			{"value", valueByte, c >= ' ' && c != 0x7f || c == '\t'},
			{"host", hostByte, isAlnum(c) || strings.IndexByte("-._~%!$&'()*+;=", c) >= 0},
			{"digit", digitByte, '0' <= c && c <= '9'},
			{"hex", hexByte, '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'},
		} {
			testkit.Equal(t, classes[c]&want.class != 0, want.in, string(c), "as", want.name, "byte")
		}
		testkit.Equal(t, isDigit(c), '0' <= c && c <= '9', string(c))
	}
}

// Every byte is tested at every place of values of up to three words, and at several offsets within
// a word. The other bytes are at the limits of the allowed range.
func TestValueSpanFindsFirstInvalidByte(t *testing.T) {
	const longest = 24
	for _, around := range []byte{' ', 'a', 0x7e, 0x80, 0xff} {
		for _, offset := range []int{0, 1, 4, 7} {
			memory := slices.Repeat([]byte{around}, offset+longest)
			for length := range longest + 1 {
				b := memory[offset : offset+length]
				for at := range b {
					for c := range 256 {
						b[at] = byte(c)
						if got, want := ValueSpan(b), span(b, valueByte); got != want {
							t.Fatalf("ValueSpan(%q) = %d, want %d", b, got, want)
						}
					}
					b[at] = around
				}
			}
		}
	}
}

func TestElementsSplitsLists(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", "a,b": "a|b", " a ,\tb\t": "a|b", ",,a, ,b,": "a|b", "a b": "a b",
	} {
		var got []string
		for e := range Elements([]byte(in)) {
			got = append(got, string(e))
		}
		testkit.Equal(t, strings.Join(got, "|"), want, in)
	}
	for list, want := range map[string]bool{"close": true, "keep-alive, Close": true, "closed": false, "": false,
		" ,close ,": true, "a,\r\n close": true, "clo\u017fe": false} {
		testkit.Equal(t, HasToken([]string{"x", list}, "cLose"), want, list)
	}
	for e := range Elements([]byte("a,b")) {
		if string(e) == "a" {
			break
		}
		t.Error("went on after break")
	}
}
