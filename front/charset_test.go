package front_test

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// recoded serves a handler whose text is in a charset "a" or in UTF-8.
func recoded(t *testing.T, s conf.Settings, h http.HandlerFunc) *testClient {
	t.Helper()
	c := oneHost(app(s))
	c.CharsetMaps = map[string]map[string]map[byte]string{"a": {"utf-8": {0xe4: "ä", 0xc1: "б", 0x80: "€", 'x': "ж"},
		"b": {0xe4: "\x84", 'p': "P"}}}
	return serveHandler(t, newFront(t, c, front.Bind("app", h), quiet()))
}

// The result is the same whole, byte by byte and in random pieces.
func TestRecodingDoesNotDependOnWrites(t *testing.T) {
	for _, c := range []struct{ from, to, text, want string }{
		{"a", "utf-8", "x \xe4\xc1\x80\x81 end", "ж äб€? end"},
		{"utf-8", "a", "ж äб€ é 中 \U0001F600 \xff\xe4 \xe2\x82", "x \xe4\xc1\x80 &#233; &#20013; &#128512; ?? ??"},
		{"a", "b", "p\xe4\x85x", "P\x84?x"},
		{"b", "a", "P\x84\xe4", "p\xe4?"},
		{"A", "a", "p\xe4", "p\xe4"},
	} {
		var cuts []int
		us := recoded(t, conf.Settings{SourceCharset: conf.Text(c.from), Files: conf.Files{Charset: conf.Text(c.to)}},
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				at := 0
				for _, cut := range cuts {
					_, _ = io.WriteString(w, c.text[at:cut])
					at = cut
				}
				_, _ = io.WriteString(w, c.text[at:])
			})
		for round := range 20 {
			cuts = nil
			for i := range c.text {
				if round == 1 || round > 1 && rand.IntN(3) == 0 {
					cuts = append(cuts, i)
				}
			}
			got := us.get("/")
			if got.body != c.want || got.header.Get("Content-Type") != "text/plain; charset="+c.to {
				t.Errorf("%s to %s in %v: %q, %q; want %q", c.from, c.to, cuts, got.body, got.header, c.want)
			}
		}
	}
}

// Only the parts of a multipart response are converted, however it is cut.
func TestOnlyPartsAreRecoded(t *testing.T) {
	const boundary = "pppp"
	part := func(charset, text string, at int) string {
		return fmt.Sprintf("\r\n--%s\r\nContent-Type: text/plain%s\r\nContent-Range: bytes %d-%d/99\r\n\r\n%s", boundary,
			charset, at, at+len(text)-1, text)
	}
	body := func(charset string, texts ...string) (all string) {
		for i, text := range texts {
			all += part(charset, text, 10*i)
		}
		return all + "\r\n--" + boundary + "--\r\n"
	}
	sent, want := body("", "p", "pp\r\n\r\np", "x"), body("; charset=b", "P", "PP\r\n\r\nP", "x")
	for _, size := range []int{1, 2, 7, 50, len(sent)} {
		us := recoded(t, conf.Settings{SourceCharset: "a", Files: conf.Files{Charset: "b"}},
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "multipart/byteranges; boundary="+boundary)
				w.Header().Set("Content-Length", fmt.Sprint(len(sent)))
				w.WriteHeader(http.StatusPartialContent)
				for rest := sent; rest != ""; {
					n := min(size, len(rest))
					_, _ = io.WriteString(w, rest[:n])
					rest = rest[n:]
				}
			})
		if got := us.get("/"); got.body != want || strings.Contains(got.header.Get("Content-Type"), "charset") {
			t.Errorf("%d bytes at a time: %q, %q", size, got.body, got.header)
		}
	}
}

// Parts whose ends are unclear, and encoded ones, remain unchanged.
func TestOtherPartsAreNotRecoded(t *testing.T) {
	long := strings.Repeat("p", 10_000)
	const delimiter, header = "\r\n--b\r\n", "Content-Type: text/plain\r\nContent-Range: bytes 0-0/9\r\n\r\n"
	for name, c := range map[string]struct{ coding, sent, want string }{
		"no range": {"", delimiter + "Content-Type: text/plain\r\n\r\np\r\nContent-Type: text/plain\r\n\r\np", ""},
		"invalid range": {"", delimiter + "Content-Type: text/plain\r\nContent-Range: bytes x\r\n\r\np" +
			delimiter + header + "p", ""},
		"no empty line": {"", delimiter + long + "\r\n\r\n" + delimiter + header + "p", ""},
		"long preamble": {"", long, ""},
		"encoded":       {"gzip", delimiter + header + "p" + delimiter + header + "p" + delimiter, ""},
		"many": {"", strings.Repeat(delimiter+header+"p", 5000),
			strings.Repeat(delimiter+strings.Replace(header, "plain", "plain; charset=b", 1)+"P", 5000)},
	} {
		us := recoded(t, conf.Settings{SourceCharset: "a", Files: conf.Files{Charset: "b"}},
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "multipart/byteranges; boundary=b")
				if c.coding != "" {
					w.Header().Set("Content-Encoding", c.coding)
				}
				w.WriteHeader(http.StatusPartialContent)
				n := len(c.sent)
				if r.URL.RawQuery != "" {
					n = 1
				}
				for piece := range slices.Chunk([]byte(c.sent), n) {
					_, _ = w.Write(piece)
				}
			})
		for _, target := range []string{"/", "/?bytes"} {
			if got := us.get(target); got.body != cmp.Or(c.want, c.sent) {
				t.Errorf("%s%s: %d bytes, want %d", name, target, len(got.body), len(cmp.Or(c.want, c.sent)))
			}
		}
	}
}

// If several bytes stand for a character it becomes the last of them, as in nginx's files.
func TestLastByteOfACharacterIsUsed(t *testing.T) {
	rows, text := make(map[byte]string), ""
	for i := range 20 {
		rows[byte(0x80+i)], rows[byte(0xa0+i)] = string(rune(0x400+i)), string(rune(0x400+i))
		text += string(rune(0x400 + i))
	}
	c := oneHost(app(conf.Settings{SourceCharset: "utf-8", Files: conf.Files{Charset: "a"}}))
	c.CharsetMaps = map[string]map[string]map[byte]string{"a": {"utf-8": rows}}
	us := serveHandler(t, newFront(t, c, quiet(), front.Bind("app",
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, text)
		}))))
	want := ""
	for i := range 20 {
		want += string([]byte{byte(0xa0 + i)})
	}
	if got := us.get("/"); got.body != want {
		t.Errorf("%q, want %q", got.body, want)
	}
}

// A part of a response is not converted if that changed its length: its range would be wrong.
func TestPartOfAnotherLengthIsNotRecoded(t *testing.T) {
	us := recoded(t, conf.Settings{SourceCharset: "a", Files: conf.Files{Charset: "utf-8"}},
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Range", "bytes 0-0/9")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "x")
		})
	if got := us.get("/"); got.body != "x" || got.header.Get("Content-Type") != "text/plain" {
		t.Errorf("%q, %q", got.body, got.header)
	}
}

// Invalid maps are errors.
func TestInvalidCharsetMapIsRejected(t *testing.T) {
	for _, maps := range []map[string]map[string]map[byte]string{
		{"a": {"A": nil}}, {"utf-8": {"a": nil}}, {"a": {"b": {1: "ab"}}}, {"a": {"b": {1: ""}}},
		{"a": {"utf-8": {1: "\xff"}}}, {"a": {"b": nil}, "b": {"a": nil}},
	} {
		c := oneHost(conf.Location{Path: "/"})
		c.CharsetMaps = maps
		if h, err := front.New(c); err == nil {
			_ = h.Close()
			t.Errorf("%q is accepted", maps)
		}
	}
}
