package http1

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// feed passes input to a decoder, and returns the body and what remains of the input.
func feed(c *Chunked, in []byte) (body, rest []byte, err error) {
	for len(in) > 0 && !c.Done() && err == nil {
		var data []byte
		var n int
		data, n, err = c.Next(in)
		body, in = append(body, data...), in[n:]
	}
	return body, in, err
}

// decode passes pieces to a decoder and describes everything that a caller can observe.
func decode(pieces [][]byte) string {
	var c Chunked
	var body []byte
	consumed := 0
	for _, p := range pieces {
		data, rest, err := feed(&c, p)
		body = append(body, data...)
		if err != nil {
			return fmt.Sprintf("%q then error: %v", body, err)
		}
		consumed += len(p) - len(rest)
	}
	return fmt.Sprintf("%q done=%v consumed=%d", body, c.Done(), consumed)
}

var chunkedVectors = []vector{
	{"9112 7.1: one chunk", "5\r\nhello\r\n0\r\n\r\n", `"hello" done=true consumed=13`},
	{"two chunks, any case, zeros before", "000a\r\n0123456789\r\nA\r\nabcdefghij\r\n0\r\n",
		`"0123456789abcdefghij" done=true`},
	{"stops in the data", "5\r\nhel", `"hel" done=false`},
	{"9112 7.1.1: extensions", "1;a\r\nx\r\n1; a=b ;c = \"d;\\\"\r\n",
		`"x" then error: http1: malformed chunk extension at byte`},
	{"9112 7.1.1: quoted value", "1;a=\"b;\\\" c\";d\r\nx\r\n0\r\n", `"x" done=true`},
	{"9112 7.1.1: space in any place", "1; \ta \t= \tb \t; \tc \t;d=\"\" \t\r\nx\r\n0;z\r\n", `"x" done=true`},
	{"overhead: extension without end", "1;" + strings.Repeat("a", 17000), "too much overhead at byte 16385"},

	{"size: none", "\r\n", "malformed chunk size at byte 0"},
	{"size: as many digits as may be, each time", strings.Repeat("0000000000000001\r\nx\r\n", 2) +
		"0000000000000000\r\n", `"xx" done=true`},
	{"size: space behind the last", "0 \r\n\r\n", "malformed chunk size at byte 1"},
	{"size: space behind", "5 \r\nhello\r\n", "malformed chunk size at byte 1"},
	{"extension: control byte", "1;\x01\r\nx\r\n0\r\n\r\n", "malformed chunk extension at byte 2"},
	{"size: greatest", "7fffffffffffffff\r\n", `"" done=false consumed=18`},
	{"size: over 63 bits", "8000000000000000\r\n", "chunk size out of range at byte 15"},
	{"size: too many zeros", "00000000000000005\r\nhello", "chunk size out of range"},
	{"line: bare LF", "5\nhello\r\n0\r\n\r\n", "malformed chunk size at byte 1"},
	{"line: bare CR", "5\rhello\r\n", "CR without LF in chunk line at byte 2"},
	{"data: longer than its size", "5\r\nhelloo\r\n",
		`"hello" then error: http1: chunk data not followed by CRLF at byte 8`},
	{"data: ends in CR and more", "5\r\nhello\rX", "chunk data not followed by CRLF at byte 9"},
	{"extension: semicolon alone", "5;\r\n", "malformed chunk extension at byte 2"},
	{"extension: bare LF inside", "5;a\n\r\n", "malformed chunk extension at byte 3"},
	{"extension: semicolon and space at the end", "5;a; \r\n", "malformed chunk extension at byte 5"},
	{"extension: end in a quoted value", "5;a=\"b\\\"\r\n", "malformed chunk extension at byte 8"},
	{"extension: not as the grammar has it, in one line", "1;a b=c=\r\nx\r\n0;=\r\n", `"x" done=true`},
}

// A chunk of n bytes allows 16+2n bytes of overhead, however many chunks come. One byte more is
// accepted only for a while.
func TestChunksAllowOverhead(t *testing.T) {
	const chunks = 17000
	for _, size := range []int{1, 10, 40} {
		for surplus, want := range []string{"", "chunked body has too much overhead"} {
			line := fmt.Sprintf("%x;", size)
			line += strings.Repeat("a", 16+2*size+surplus-len(line)-len("\r\n\r\n"))
			chunk := []byte(line + "\r\n" + strings.Repeat("d", size) + "\r\n")
			var c Chunked
			var err error
			got := 0
			for i := 0; i < chunks && err == nil; i++ {
				var data []byte
				data, _, err = feed(&c, chunk)
				got += len(data)
			}
			var e *Error
			switch {
			case want == "" && (err != nil || got != chunks*size):
				t.Errorf("size %d: %d bytes, %v", size, got, err)
			case want != "" && (!errors.As(err, &e) || e.What != want || e.Kind != TooLarge):
				t.Errorf("size %d and a byte more: %v", size, err)
			}
		}
	}
}

func TestAppendedHeadsAreRead(t *testing.T) {
	b := AppendStatusLine(nil, 1, 299, "")
	b = AppendField(b, "X-A", " \t one two\r\n")
	b = AppendField(b, "X-B", "evil\r\nSet-Cookie: x\x00\x7f")
	b = AppendField(b, "Content-Length", "0")
	b = AppendHeadEnd(b)
	want := "HTTP/1.1 299 \r\nX-A: one two\r\nX-B: evil  Set-Cookie: x  \r\nContent-Length: 0\r\n\r\n"
	testkit.Equal(t, string(b), want)
	testkit.Equal(t, string(AppendStatusLine([]byte("x"), 0, 404, "Not Found")), "xHTTP/1.0 404 Not Found\r\n")
	for in, want := range map[string]string{"": "", " ": "", "a": "a", "a ": "a", "a \t\r\n": "a", "\n a": "a",
		"a\nb": "a b"} {
		testkit.Equal(t, string(AppendField([]byte("x"), "N", in)), "xN: "+want+"\r\n", in)
	}
	testkit.Equal(t, string(AppendRequestLine(nil, 1, "GET", "/x")), "GET /x HTTP/1.1\r\n")
}

func TestValidFunctionsFollowGrammar(t *testing.T) {
	for s, want := range map[string][3]bool{ // token, target, value
		"":       {false, false, true},
		"GET":    {true, true, true},
		"/a?b":   {false, true, true},
		"a b":    {false, false, true},
		"a\tb":   {false, false, true},
		"a\nb":   {false, false, false},
		"a\x7fb": {false, false, false},
		"\xc3":   {false, true, true},
	} {
		testkit.Equal(t, [3]bool{ValidToken(s), ValidTarget(s), ValidValue(s)}, want, s)
	}
}
