package front_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
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

// An added body gets the charset of the response.
func TestAddedBodyIsRecoded(t *testing.T) {
	c := oneHost(
		conf.Location{Path: "/", Steps: []conf.Step{conf.Return{Status: 200, Text: "p"}}, Settings: conf.Settings{
			AddAfter: "/after", SourceCharset: "b", Files: conf.Files{Charset: "a", DefaultType: "text/html"}}},
		conf.Location{Path: "/after", Steps: []conf.Step{conf.Return{Status: 200, Text: "P\x84"}},
			Settings: conf.Settings{SourceCharset: "b", Files: conf.Files{DefaultType: "text/html"}}},
	)
	c.CharsetMaps = map[string]map[string]map[byte]string{"a": {"b": {0xe4: "\x84", 'p': "P"}}}
	us := serveHandler(t, newFront(t, c, quiet()))
	if got := us.get("/"); got.body != "pp\xe4" {
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
