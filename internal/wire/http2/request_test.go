package http2_test

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/wire/http1"
	"github.com/tarehq/tare/internal/wire/http2"
)

// blockOf encodes fields of the form "name: value", one for each line.
func blockOf(lines string) []byte {
	var out bytes.Buffer
	e := hpack.NewEncoder(&out)
	for line := range strings.SplitSeq(lines, "\n") {
		if i := strings.Index(line[min(1, len(line)):], ": "); i >= 0 {
			_ = e.WriteField(hpack.HeaderField{Name: line[:i+1], Value: line[i+3:]})
		}
	}
	return out.Bytes()
}

func decode(t *testing.T, lines string) *http2.HeaderBlock {
	t.Helper()
	d := http2.NewDecoder(4096)
	b := new(http2.HeaderBlock)
	if err := d.Decode(blockOf(lines), wideLimits(), b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRequestsAreChecked(t *testing.T) {
	const get = ":method: GET\n:scheme: https\n:path: /a\n:authority: example.com\n"
	for _, test := range []struct{ lines, want string }{
		{get, ""},
		{get + "te: trailers\ncontent-length: 5\ncontent-length: 5\nhost: EXAMPLE.com", ""},
		{":method: OPTIONS\n:scheme: http\n:path: *", ""},
		{":method: GET\n:scheme: https\n:path: *", ""},
		{":method: GET\n:scheme: http\n:path: /\nhost: a", ""},
		{":method: CONNECT\n:authority: a:80", ""},
		{":method: CONNECT\n:protocol: websocket\n:scheme: https\n:path: /\n:authority: a", ""},
		{":method: CONNECT\n:protocol: websocket\n:scheme: https\n:path: /", ""},
		{":method: get\n:scheme: http\n:path: /", ""},
		{get + "te: ", ""},
		{get + "te:  trailers\ncontent-length: 5 \nhost:  example.com\t", ""},

		{":scheme: https\n:path: /", ":method"},
		{":method: G T\n:scheme: https\n:path: /", ":method"},
		{":method: GET\n:path: /", ":scheme"},
		{":method: GET\n:scheme: ftp\n:path: /", ":scheme"},
		{":method: GET\n:scheme: https", ":path"},
		{":method: GET\n:scheme: https\n:path: *a", ":path"},
		{":method: GET\n:scheme: https\n:path: a", ":path"},
		{":method: GET\n:scheme: https\n:path: /a b", ":path"},
		{":method: CONNECT\n:authority: a:80\n:path: /", "CONNECT"},
		{":method: CONNECT", "CONNECT"},
		{":method: GET\n:protocol: websocket\n:scheme: https\n:path: /\n:authority: a", ":protocol"},
		{":method: CONNECT\n:protocol: \n:scheme: https\n:path: /\n:authority: a", ":protocol"},
		{":method: CONNECT\n:protocol: a b\n:scheme: https\n:path: /\n:authority: a", ":protocol"},
		{":method: CONNECT\n:protocol: a\n:protocol: a\n:scheme: https\n:path: /\n:authority: a", "duplicate"},
		{":method: CONNECT\n:protocol: a\n:path: /\n:authority: a", ":scheme"},
		{":method: CONNECT\n:protocol: a\n:scheme: https\n:authority: a", ":path"},
		{":method: CONNECT\n:protocol: a\n:scheme: https\n:path: *\n:authority: a", ":path"},
		{get + ":method: GET", "duplicate"},
		{get + ":status: 200", "response"},
		{get + ":unknown: x", "unknown pseudo"},
		{":method: GET\naccept: x\n:scheme: https\n:path: /", "after a field"},
		{get + "Accept: x", "field name"},
		{get + "a b: x", "field name"},
		{get + "connection: close", "HTTP/1"},
		{get + "transfer-encoding: chunked", "HTTP/1"},
		{get + "keep-alive: 1", "HTTP/1"},
		{get + "proxy-connection: 1", "HTTP/1"},
		{get + "upgrade: h2c", "HTTP/1"},
		{get + "te: gzip", "TE"},
		{get + "te: Trailers", "TE"},
		{get + "te: trailers\nte: trailers", "TE"},
		{get + "a: x\x00y", "value"},
		{get + "a: x\ry", "value"},
		{":method: GET \n:scheme: https\n:path: /", ":method"},
		{":method: GET\n:scheme:  https\n:path: /", ":scheme"},
		{":method: GET\n:scheme: https\n:path: /\t", ":path"},
		{":method: GET\n:scheme: https\n:path: /\n:authority:  a", ":authority"},
		{get + "content-length: 5\ncontent-length: 6", "Content-Length"},
		{get + "content-length: +5", "Content-Length"},
		{get + "content-length: ", "Content-Length"},
		{get + "content-length: 9999999999999999999", "Content-Length"},
		{get + "host: other", "differs"},
		{get + "host: example.com\nhost: example.com", "Host"},
		{":method: GET\n:scheme: https\n:path: /\n:authority: a b", ":authority"},
		{":method: GET\n:scheme: https\n:path: /\nhost: a/b", "Host"},
		{":method: GET\n:scheme: https\n:path: /\n:authority: user@host", "authority"},
	} {
		fault := decode(t, test.lines).CheckRequest()
		if (fault == "") != (test.want == "") || !strings.Contains(fault, test.want) {
			t.Errorf("%q: fault %q, want %q", test.lines, fault, test.want)
		}
	}
}

func TestCookieFieldsAreJoined(t *testing.T) {
	b := decode(t, ":method: GET\n:scheme: https\n:path: /\ncookie: a=1\naccept: x\ncookie: b=2\ncookie: c=3")
	if fault := b.CheckRequest(); fault != "" {
		t.Fatal(fault)
	}
	want := ":method: GET\n:scheme: https\n:path: /\ncookie: a=1; b=2; c=3\naccept: x\n"
	if got := list(b); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSpaceAroundValuesIsRemoved(t *testing.T) {
	const head = ":method: GET\n:scheme: https\n:path: /\n"
	b := decode(t, head+"a:  x\nb: y \t\nx-c: \t\ncookie:  a=1\ncookie: b=2 ")
	if fault := b.CheckRequest(); fault != "" {
		t.Fatal(fault)
	}
	if got, want := list(b), head+"a: x\nb: y\nx-c: \ncookie: a=1; b=2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTrailersAndResponsesAreChecked(t *testing.T) {
	if fault := decode(t, "x-sum: 1").CheckTrailers(); fault != "" {
		t.Error(fault)
	}
	if decode(t, ":path: /\nx-sum: 1").CheckTrailers() == "" {
		t.Error("a pseudo-header field in a trailer section is accepted")
	}
	b := decode(t, ":status: 404\ncontent-length: 3")
	if fault := b.CheckResponse(); fault != "" || b.StatusCode() != 404 || b.Length != 3 {
		t.Error(fault, b.StatusCode(), b.Length)
	}
	for _, lines := range []string{"a: b", ":status: 20", ":status: 2x0", ":status: 200\n:path: /", ":status: 099"} {
		if decode(t, lines).CheckResponse() == "" {
			t.Errorf("%q is accepted", lines)
		}
	}
}

// golang.org/x/net decodes what AppendStatus and AppendField write, and the table stays empty.
func TestEncodedFieldsAreReadByXNet(t *testing.T) {
	for _, status := range []int{200, 204, 206, 304, 400, 404, 500, 100, 302, 999} {
		out := http2.AppendStatus(nil, status)
		out = http2.AppendField(out, "Content-Type", "text/html")
		out = http2.AppendField(out, []byte("X-Custom-NAME"), []byte(strings.Repeat("v", 1000)))
		out = http2.AppendField(out, strings.Repeat("Long", 50), "")
		out = http2.AppendLength(out, 1<<58)
		fields, err := hpack.NewDecoder(4096, nil).DecodeFull(out)
		if err != nil {
			t.Fatal(err)
		}
		var b http2.HeaderBlock
		d := http2.NewDecoder(4096)
		if err := d.Decode(out, wideLimits(), &b); err != nil || b.StatusCode() != status || b.CheckResponse() != "" {
			t.Error(err, b.StatusCode(), b.CheckResponse())
		}
		var got []string
		for _, f := range fields {
			got = append(got, f.Name)
		}
		want := ":status content-type x-custom-name " + strings.Repeat("long", 50) + " content-length"
		if text := strings.Join(got, " "); text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
}

// Limits count as RFC 9113 does, and a list that exceeds them leaves the table right.
func TestListLimits(t *testing.T) {
	lines := ":method: GET\n:scheme: https\n:path: /\nx-a: 1\nx-b: 2"
	size := 0
	for line := range strings.SplitSeq(lines, "\n") {
		size += len(line) - len(": ") + 32
	}
	d := http2.NewDecoder(4096)
	var b http2.HeaderBlock
	for i, limits := range []http1.Limits{
		{Bytes: size, Fields: 5}, {Bytes: size - 1, Fields: 5}, {Bytes: size, Fields: 4},
	} {
		if err := d.Decode(blockOf(lines), limits, &b); err != nil || b.IsTooLarge != (i > 0) {
			t.Errorf("%+v: %v, too large: %v", limits, err, b.IsTooLarge)
		}
	}
	if err := d.Decode([]byte{0xbe}, wideLimits(), &b); err != nil || list(&b) != "x-b: 2\n" {
		t.Errorf("table: %v %q", err, list(&b))
	}
}

// A name or value is limited as it is encoded, and one of the table is not. The table stays right.
func TestEncodedFieldsAreLimited(t *testing.T) {
	limits := wideLimits()
	limits.Line = 100
	const get = ":method: GET\n:scheme: https\n:path: /\n"
	digits, tildes := strings.Repeat("1", 160), strings.Repeat("~", 100) // 5 bits each, and 13
	for lines, isTooLarge := range map[string]bool{
		get + "a: " + digits:                    false,
		get + "a: " + digits + "1":              true,
		get + "a: " + tildes:                    false,
		get + "a: " + tildes + "~":              true,
		get + tildes + "~: b":                   true,
		get + ":authority: " + digits + "1":     true,
		get + "a: " + tildes + "\nb: " + tildes: false,
	} {
		d := http2.NewDecoder(4096)
		var b http2.HeaderBlock
		if err := d.Decode(blockOf(lines), limits, &b); err != nil || b.IsTooLarge != isTooLarge {
			t.Errorf("%q: %v, too large: %v", lines, err, b.IsTooLarge)
		}
		if err := d.Decode([]byte{0xbe}, limits, &b); err != nil || b.IsTooLarge || len(b.Text) == 0 {
			t.Errorf("%q, then indexed: %v, too large: %v", lines, err, b.IsTooLarge)
		}
	}
}

// Any bytes are decoded without a panic and within the limits, and the same bytes give the same
// result in reused memory.
func FuzzRequest(f *testing.F) {
	f.Add(blockOf(":method: GET\n:scheme: https\n:path: /\n:authority: a\ncookie: a\ncookie: b"))
	f.Add([]byte("\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"))
	f.Add([]byte{0x3f, 0xe1, 0x1f, 0x40, 0x01, 'a', 0x01, 'b', 0xbe})
	f.Fuzz(func(t *testing.T, in []byte) {
		limits := http1.Limits{Bytes: 2000, Fields: 20}
		var reused http2.HeaderBlock
		var first string
		for i := range 2 {
			d := http2.NewDecoder(4096)
			err := d.Decode(in, limits, &reused)
			if err != nil {
				return
			}
			fault := reused.CheckRequest()
			if len(reused.Fields) > limits.Fields || len(reused.Text) > 2*limits.Bytes {
				t.Fatalf("%d fields, %d bytes", len(reused.Fields), len(reused.Text))
			}
			text := fault + list(&reused)
			if i == 1 && text != first {
				t.Fatalf("%q, then %q", first, text)
			}
			first = text
		}
	})
}
