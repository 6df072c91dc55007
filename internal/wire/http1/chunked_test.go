package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// decode passes pieces to a decoder and describes everything that a caller can observe.
func decode(pieces [][]byte) string {
	var c Chunked
	var body strings.Builder
	consumed := 0
	for _, p := range pieces {
		for len(p) > 0 && !c.Done() {
			data, n, err := c.Next(p)
			if err != nil {
				return fmt.Sprintf("%q then error: %v", body.String(), err)
			}
			body.Write(data)
			consumed += n
			p = p[n:]
		}
	}
	return fmt.Sprintf("%q done=%v consumed=%d", body.String(), c.Done(), consumed)
}

var chunkedVectors = []vector{
	{"9112 7.1: one chunk", "5\r\nhello\r\n0\r\n\r\n", `"hello" done=true consumed=13`},
	{"two chunks, any case, zeros before", "000a\r\n0123456789\r\nA\r\nabcdefghij\r\n0\r\n",
		`"0123456789abcdefghij" done=true`},
	{"stops in the data", "5\r\nhel", `"hel" done=false`},
	{"9112 7.1.1: extensions", "1;a\r\nx\r\n1; a=b ;c = \"d;\\\"\r\n",
		`"x" then error: http1: malformed chunk extension at byte`},
	{"9112 7.1.1: quoted value", "1;a=\"b;\\\" c\";d\r\nx\r\n0\r\n", `"x" done=true`},
	{"9112 7.1.1: space around the equals sign", "1;a = b\r\nx\r\n0;z\r\n", `"x" done=true`},
	{"9112 7.1.1: names and values of several letters", "1;ab=cd;ef\r\nx\r\n0\r\n", `"x" done=true`},
	{"9112 7.1.1: space in every place but before the first semicolon",
		"1; \ta \t= \tb \t; \tc \t;d=\"\" \t\r\nx\r\n0\r\n", `"x" done=true`},
	{"overhead: extension without end", "1;" + strings.Repeat("a", 17000), "too much overhead at byte 16385"},
	{"overhead: many small extensions", strings.Repeat("1;"+strings.Repeat("a", 90)+"\r\nx\r\n", 400),
		"too much overhead"},
	{"overhead: one-byte chunks are honest", strings.Repeat("1\r\nx\r\n", 4000) + "0\r\n", "done=true consumed=24003"},

	{"size: none", "\r\n", "malformed chunk size at byte 0"},
	{"size: as many digits as may be, each time", strings.Repeat("0000000000000001\r\nx\r\n", 2) +
		"0000000000000000\r\n", `"xx" done=true`},
	{"size: prefix", "0x5\r\n", "malformed chunk size at byte 1"},
	{"size: space behind the last", "0 \r\n\r\n", "malformed chunk size at byte 1"},
	{"size: space behind", "5 \r\nhello\r\n", "malformed chunk size at byte 1"},
	{"extension: control byte", "1;\x01\r\nx\r\n0\r\n\r\n", "malformed chunk extension at byte 2"},
	{"size: greatest", "7fffffffffffffff\r\n", `"" done=false consumed=18`},
	{"size: wraps", "10000000000000005\r\nhello", "chunk size out of range"},
	{"size: too many zeros", "00000000000000005\r\nhello", "chunk size out of range"},
	{"line: bare LF", "5\nhello\r\n0\r\n\r\n", "malformed chunk size at byte 1"},
	{"line: bare CR", "5\rhello\r\n", "CR without LF in chunk line at byte 2"},
	{"data: longer than its size", "5\r\nhelloo\r\n",
		`"hello" then error: http1: chunk data not followed by CRLF at byte 8`},
	{"data: ends in CR and more", "5\r\nhello\rX", "chunk data not followed by CRLF at byte 9"},
	{"extension: semicolon alone", "5;\r\n", "malformed chunk extension at byte 2"},
	{"extension: bare LF inside", "5;a\n\r\n", "malformed chunk extension at byte 3"},
	{"extension: space in a name", "5;a b\r\n", "malformed chunk extension at byte 4"},
	{"extension: space in a value", "5;a=b c\r\n", "malformed chunk extension at byte 6"},
	{"extension: two values", "5;a=b=c\r\n", "malformed chunk extension at byte 5"},
	{"extension: no value", "5;a=\r\n", "malformed chunk extension"},
	{"extension: NUL", "5;a\x00\r\n", "malformed chunk extension"},
}

func TestChunkedDecodesVectorsAtEverySplit(t *testing.T) {
	for _, v := range chunkedVectors {
		t.Run(v.why, func(t *testing.T) {
			testkit.Contains(t, testkit.EverySplit(t, []byte(v.in), decode), v.want, "input", v.in)
		})
	}
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
			for range chunks {
				for p := chunk; len(p) > 0 && err == nil; {
					var data []byte
					var n int
					data, n, err = c.Next(p)
					got += len(data)
					p = p[n:]
				}
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
	if string(b) != want {
		t.Errorf(" got %q\nwant %q", b, want)
	}
	if _, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(b)), nil); err != nil {
		t.Error(err)
	}
	var r Response
	if ok, err := r.Parse(b, testLimits); !ok || err != nil {
		t.Error(ok, err)
	}
	testkit.Equal(t, string(AppendStatusLine([]byte("x"), 0, 404, "Not Found")), "xHTTP/1.0 404 Not Found\r\n")
	for in, want := range map[string]string{"": "", " ": "", "a": "a", "a ": "a", "a \t\r\n": "a", "\n a": "a",
		"a\nb": "a b"} {
		if got := string(AppendField([]byte("x"), "N", in)); got != "xN: "+want+"\r\n" {
			t.Errorf("%q is written as %q", in, got)
		}
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
