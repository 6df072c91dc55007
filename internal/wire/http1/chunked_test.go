package http1

import (
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
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
	{"several zeros end it", "000\r\n\r\n", `"" done=true consumed=5`},
	{"stops in the data", "5\r\nhel", `"hel" done=false`},
	{"9112 7.1.1: extensions", "1;a\r\nx\r\n1; a=b ;c = \"d;\\\"\r\n",
		`"x" then error: http1: malformed chunk extension at byte`},
	{"9112 7.1.1: quoted value", "1;a=\"b;\\\" c\";d\r\nx\r\n0\r\n", `"x" done=true`},
	{"9112 7.1.1: space around the equals sign", "1;a = b\r\nx\r\n0;z\r\n", `"x" done=true`},
	{"9112 7.1.1: names and values of several letters", "1;ab=cd;ef\r\nx\r\n0\r\n", `"x" done=true`},
	{"9112 7.1.1: space in every place but before the first semicolon",
		"1; \ta \t= \tb \t; \tc \t;d=\"\" \t\r\nx\r\n0\r\n", `"x" done=true`},
	{"every digit", "0123\r\n" + strings.Repeat("x", 0x123) + "\r\n9\r\nabcdefghi\r\n0\r\n", `xabcdefghi" done=true`},
	{"overhead: all of it behind a chunk", "1\r\nx\r\n1;" + strings.Repeat("a", 17000),
		"too much overhead at byte 16388"},
	{"overhead: extension without end", "1;" + strings.Repeat("a", 17000), "too much overhead at byte 16385"},
	{"overhead: many small extensions", strings.Repeat("1;"+strings.Repeat("a", 90)+"\r\nx\r\n", 400),
		"too much overhead"},
	{"overhead: one-byte chunks are honest", strings.Repeat("1\r\nx\r\n", 4000) + "0\r\n", "done=true consumed=24003"},

	{"size: none", "\r\n", "malformed chunk size at byte 0"},
	{"size: none the second time", "1\r\nx\r\n\r\n", `"x" then error: http1: malformed chunk size at byte 6`},
	{"size: as many digits as may be, each time", strings.Repeat("0000000000000001\r\nx\r\n", 2) +
		"0000000000000000\r\n", `"xx" done=true`},
	{"size: sign", "-1\r\n", "malformed chunk size at byte 0"},
	{"size: prefix", "0x5\r\n", "malformed chunk size at byte 1"},
	{"size: space before", " 5\r\n", "malformed chunk size"},
	{"size: space behind", "5 \r\nhello\r\n", "malformed chunk size at byte 1"},
	{"size: space behind the last", "0 \r\n\r\n", "malformed chunk size at byte 1"},
	{"extension: control byte", "1;\x01\r\nx\r\n0\r\n\r\n", "malformed chunk extension at byte 2"},
	{"extension: CR", "1;a\rb\r\nx\r\n0\r\n\r\n", "CR without LF in chunk line"},
	{"size: underscore", "1_0\r\n", "malformed chunk size"},
	{"size: greatest", "7fffffffffffffff\r\n", `"" done=false consumed=18`},
	{"size: sign bit", "8000000000000000\r\n", "chunk size out of range"},
	{"size: wraps", "10000000000000005\r\nhello", "chunk size out of range"},
	{"size: too many zeros", "00000000000000005\r\nhello", "chunk size out of range"},
	{"line: bare LF", "5\nhello\r\n0\r\n\r\n", "malformed chunk size at byte 1"},
	{"line: bare CR", "5\rhello\r\n", "CR without LF in chunk line at byte 2"},
	{"data: longer than its size", "5\r\nhelloo\r\n",
		`"hello" then error: http1: chunk data not followed by CRLF at byte 8`},
	{"data: ends in bare LF", "5\r\nhello\n0\r\n", "chunk data not followed by CRLF"},
	{"data: ends in CR and more", "5\r\nhello\rX", "chunk data not followed by CRLF at byte 9"},
	{"extension: semicolon alone", "5;\r\n", "malformed chunk extension at byte 2"},
	{"extension: bare LF inside", "5;a\n\r\n", "malformed chunk extension at byte 3"},
	{"extension: LF in quotes", "5;a=\"\n\"\r\n", "malformed chunk extension at byte 5"},
	{"extension: CR in quotes", "5;a=\"\r\n", "malformed chunk extension"},
	{"extension: space in a name", "5;a b\r\n", "malformed chunk extension at byte 4"},
	{"extension: space in a value", "5;a=b c\r\n", "malformed chunk extension at byte 6"},
	{"extension: letters behind a quoted value", "5;a=\"b\"c\r\n", "malformed chunk extension at byte 7"},
	{"extension: two values", "5;a=b=c\r\n", "malformed chunk extension at byte 5"},
	{"extension: comma", "5;a,b\r\n", "malformed chunk extension at byte 3"},
	{"extension: escaped control byte", "5;a=\"\\\x01\"\r\n", "malformed chunk extension at byte 6"},
	{"extension: no name", "5;=b\r\n", "malformed chunk extension at byte 2"},
	{"extension: no value", "5;a=\r\n", "malformed chunk extension"},
	{"extension: NUL", "5;a\x00\r\n", "malformed chunk extension"},
}

func TestChunkedDecodesVectorsAtEverySplit(t *testing.T) {
	for _, v := range chunkedVectors {
		t.Run(v.why, func(t *testing.T) {
			if got := testkit.EverySplit(t, []byte(v.in), decode); !strings.Contains(got, v.want) {
				t.Errorf("input %.80q\n got %s\nwant %s", v.in, got, v.want)
			}
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

// net/http reads what this package writes, and this package reads what net/http writes.
func TestChunkedAgreesWithHTTPUtil(t *testing.T) {
	var ours []byte
	var theirs strings.Builder
	w := httputil.NewChunkedWriter(&theirs)
	for _, n := range []int{1, 15, 16, 17, 4096, 70000} {
		data := strings.Repeat("d", n)
		ours = AppendChunkEnd(append(AppendChunkSize(ours, n), data...))
		if _, err := io.WriteString(w, data); err != nil {
			t.Fatal(err)
		}
	}
	ours = AppendHeadEnd(AppendLastChunk(ours))
	w.Close()

	want := strings.Repeat("d", 1+15+16+17+4096+70000)
	got, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(string(ours))))
	if err != nil || string(got) != want {
		t.Errorf("net/http read %d bytes of ours, %v", len(got), err)
	}
	if got := decode([][]byte{[]byte(theirs.String())}); !strings.HasPrefix(got, fmt.Sprintf("%q done=true", want)) {
		t.Errorf("we read theirs as %.100s", got)
	}
}
