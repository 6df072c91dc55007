package http1

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"
)

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
	if got := string(AppendStatusLine([]byte("x"), 0, 404, "Not Found")); got != "xHTTP/1.0 404 Not Found\r\n" {
		t.Error(got)
	}
	for in, want := range map[string]string{"": "", " ": "", "a": "a", "a ": "a", "a \t\r\n": "a", "\n a": "a",
		"a\nb": "a b"} {
		if got := string(AppendField([]byte("x"), "N", in)); got != "xN: "+want+"\r\n" {
			t.Errorf("%q is written as %q", in, got)
		}
	}
	if got := string(AppendRequestLine(nil, 1, "GET", "/x")); got != "GET /x HTTP/1.1\r\n" {
		t.Error(got)
	}
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
		if got := [3]bool{ValidToken(s), ValidTarget(s), ValidValue(s)}; got != want {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
}
