package http2_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/testkit"
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
	mustDecode(t, &d, blockOf(lines), wideLimits(), b)
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
		{":method: CONNECT\n:scheme: https\n:path: /\n:authority: a\nx-a: b\n:protocol: a", "after a field"},
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
		{get + "content-length: 0\ncontent-length: 6", "Content-Length"},
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

// Cookie fields are joined, and space around values is removed.
func TestFieldsAreNormalized(t *testing.T) {
	const head = ":method: GET\n:scheme: https\n:path: /\n"
	for in, want := range map[string]string{
		"cookie: a=1\naccept: x\ncookie: b=2\ncookie: c=3":    "cookie: a=1; b=2; c=3\naccept: x\n",
		"a:  x\nb: y \t\nx-c: \t\ncookie:  a=1\ncookie: b=2 ": "a: x\nb: y\nx-c: \ncookie: a=1; b=2\n",
	} {
		b := decode(t, head+in)
		testkit.Equal(t, b.CheckRequest(), "", in)
		testkit.Equal(t, list(b), head+want, in)
	}
}

func TestTrailersAndResponsesAreChecked(t *testing.T) {
	testkit.Equal(t, decode(t, "x-sum: 1").CheckTrailers(), "")
	testkit.Contains(t, decode(t, ":path: /\nx-sum: 1").CheckTrailers(), "pseudo-header")
	b := decode(t, ":status: 404\ncontent-length: 3")
	testkit.Equal(t, fmt.Sprint(b.CheckResponse(), b.StatusCode(), b.Length), "404 3")
	for _, lines := range []string{"a: b", ":status: 20", ":status: 2x0", ":status: 200\n:path: /", ":status: 099"} {
		testkit.Equal(t, decode(t, lines).CheckResponse() == "", false, "accepted:", lines)
	}
}

// codeOf returns the code of an error, if there is one.
func codeOf(err *http2.Error) http2.ErrorCode {
	if err == nil {
		return http2.NoError
	}
	return err.Code
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
		mustDecode(t, &d, blockOf(lines), limits, &b)
		testkit.Equal(t, b.IsTooLarge, i > 0, limits)
	}
	mustDecode(t, &d, []byte{0xbe}, wideLimits(), &b)
	testkit.Equal(t, list(&b), "x-b: 2\n")
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
		mustDecode(t, &d, blockOf(lines), limits, &b)
		testkit.Equal(t, b.IsTooLarge, isTooLarge, lines)
		mustDecode(t, &d, []byte{0xbe}, limits, &b)
		testkit.Equal(t, b.IsTooLarge || len(b.Text) == 0, false, lines, "then indexed")
	}
}

// Any bytes are decoded without a panic and within the limits, and the same bytes give the same
// result in reused memory.
func FuzzRequest(f *testing.F) {
	f.Add(blockOf(":method: GET\n:scheme: https\n:path: /\n:authority: a\ncookie: a\ncookie: b"))
	f.Add([]byte("\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"))
	f.Add([]byte{0x3f, 0xe1, 0x1f, 0x40, 0x01, 'a', 0x01, 'b', 0xbe})
	// a large field, and thousands of references to it
	f.Add(append(blockOf("a: "+strings.Repeat("~", 400)), bytes.Repeat([]byte{0xbe}, 1<<12)...))
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
			if i == 0 {
				first = text
			}
			testkit.Equal(t, text, first, "the second time")
		}
	})
}

func TestFrameHeaderIsRead(t *testing.T) {
	in := []byte{0x12, 0x34, 0x56, 0x1, 0x2c, 0xff, 0xff, 0xff, 0xfe}
	for n := range in {
		_, ok := http2.ParseFrameHeader(in[:n])
		testkit.Equal(t, ok, false, n, "bytes are a header")
	}
	want := http2.FrameHeader{Length: 0x123456, Type: http2.Headers, Flags: 0x2c, StreamID: 0x7ffffffe}
	got, _ := http2.ParseFrameHeader(in)
	testkit.Equal(t, got, want)
	in[5] = 0x7f // the reserved bit is ignored when received, and not sent
	testkit.Equal(t, http2.AppendFrameHeader(nil, want), in)
}

func TestFrameHeaderIsChecked(t *testing.T) {
	const conn, stream = true, false
	for _, test := range []struct {
		header  http2.FrameHeader
		want    http2.ErrorCode
		endsAll bool
	}{
		{http2.FrameHeader{Type: http2.Data, StreamID: 1, Length: 16384}, http2.NoError, conn},
		{http2.FrameHeader{Type: http2.Data, StreamID: 1, Length: 16385}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.Data}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.Headers}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.Priority, Length: 5}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.Priority, StreamID: 3, Length: 4}, http2.FrameSizeError, stream},
		{http2.FrameHeader{Type: http2.RSTStream, StreamID: 3, Length: 5}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.RSTStream, Length: 4}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.Settings, StreamID: 1}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.Settings, Length: 7}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.Settings, Length: 6, Flags: http2.Ack}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.Settings, Length: 600}, http2.NoError, conn},
		{http2.FrameHeader{Type: http2.Settings, Length: 606}, http2.EnhanceYourCalm, conn},
		{http2.FrameHeader{Type: http2.Ping, Length: 7}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.Ping, StreamID: 1, Length: 8}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.GoAway, Length: 7}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.GoAway, Length: 8, StreamID: 1}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.WindowUpdate, Length: 4}, http2.NoError, conn},
		{http2.FrameHeader{Type: http2.WindowUpdate, Length: 5, StreamID: 1}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.Continuation}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.PriorityUpdate, Length: 4, StreamID: 1}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.PriorityUpdate, Length: 3}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.PriorityUpdate, Length: 1<<10 + 1}, http2.EnhanceYourCalm, conn},
		{http2.FrameHeader{Type: 0xbb, StreamID: 9}, http2.NoError, conn},
	} {
		err := test.header.Check(http2.MinMaxFrameSize)
		testkit.Equal(t, codeOf(err), test.want, test.header)
		testkit.Equal(t, err == nil || err.StreamID == 0, test.endsAll, test.header, "ends the connection")
	}
}

// A block larger than a frame continues in CONTINUATION frames, and decodes to the same fields.
func TestLargeBlockIsSplit(t *testing.T) {
	for _, size := range []int{0, 100, 16370, 16384, 16385, 40000} {
		prefix := []byte("earlier output")
		out := http2.AppendFrameHeader(bytes.Clone(prefix), http2.FrameHeader{
			Type: http2.Headers, Flags: http2.EndStream, StreamID: 3,
		})
		out = http2.AppendStatus(out, 200)
		out = http2.AppendField(out, "X-Long_1", strings.Repeat("v", size))
		out = http2.EndBlock(out, len(prefix), http2.MinMaxFrameSize)
		testkit.Equal(t, string(out[:len(prefix)]), string(prefix))
		framer := xhttp2.NewFramer(io.Discard, bytes.NewReader(out[len(prefix):]))
		var block []byte
		for ended := false; !ended; {
			switch f := testkit.Value(framer.ReadFrame())(t).(type) {
			case *xhttp2.HeadersFrame:
				block, ended = append(block, f.HeaderBlockFragment()...), f.HeadersEnded()
				testkit.Equal(t, f.StreamEnded(), true, "END_STREAM")
			case *xhttp2.ContinuationFrame:
				block, ended = append(block, f.HeaderBlockFragment()...), f.HeadersEnded()
			}
		}
		d := http2.NewDecoder(4096)
		var b http2.HeaderBlock
		mustDecode(t, &d, block, wideLimits(), &b)
		testkit.Equal(t, list(&b), ":status: 200\nx-long_1: "+strings.Repeat("v", size)+"\n", size)
	}
}

func TestPaddingAndPriorityAreRemoved(t *testing.T) {
	for _, test := range []struct {
		flags   http2.Flags
		payload string
		want    string
		code    http2.ErrorCode
	}{
		{0, "block", "block", 0},
		{http2.Padded, "\x02block\x00\x00", "block", 0},
		{http2.Padded, "\x00", "", 0},
		{http2.Padded, "", "", http2.FrameSizeError},
		{http2.Padded, "\x03ab", "", http2.ProtocolError},
		{http2.HasPriority, "\x00\x00\x00\x01\x10block", "block", 0},
		{http2.HasPriority, "\x80\x00\x00\x05\x10block", "block", http2.ProtocolError},
		{http2.HasPriority, "\x00\x00\x00\x01", "", http2.FrameSizeError},
		{http2.HasPriority | http2.Padded, "\x01\x00\x00\x00\x01\x10block\x00", "block", 0},
	} {
		h := http2.FrameHeader{Type: http2.Headers, Flags: test.flags, StreamID: 5, Length: uint32(len(test.payload))}
		got, err := http2.BlockOf(h, []byte(test.payload))
		testkit.Equal(t, codeOf(err), test.code, test.payload)
		if err == nil || err.StreamID != 0 {
			testkit.Equal(t, string(got), test.want, test.payload)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, test := range []struct {
		setting http2.Setting
		want    http2.ErrorCode
	}{
		{http2.Setting{ID: http2.EnablePush, Value: 1}, 0},
		{http2.Setting{ID: http2.EnablePush, Value: 2}, http2.ProtocolError},
		{http2.Setting{ID: http2.InitialWindowSize, Value: 1 << 31}, http2.FlowControlError},
		{http2.Setting{ID: http2.InitialWindowSize, Value: 1<<31 - 1}, 0},
		{http2.Setting{ID: http2.MaxFrameSizeSetting, Value: 16383}, http2.ProtocolError},
		{http2.Setting{ID: http2.MaxFrameSizeSetting, Value: 1 << 24}, http2.ProtocolError},
		{http2.Setting{ID: 0x99, Value: 1 << 31}, 0},
	} {
		testkit.Equal(t, codeOf(test.setting.Check()), test.want, test.setting)
	}
}

func TestPriorityIsParsed(t *testing.T) {
	for _, test := range []struct {
		value       string
		urgency     uint8
		incremental bool
	}{
		{"", 3, false}, {"u=0", 0, false}, {"u=7, i", 7, true}, {"i,u=1", 1, true}, {"u=5;x=1 , i=?1;y", 5, true},
		{"i=?0", 3, false}, {"u=8", 3, false}, {"u=-1", 3, false}, {"u", 3, false}, {"u=1,u=2", 2, false},
		{"\tu=2 ,", 2, false}, {"i=1", 3, false},
	} {
		urgency, incremental := http2.ParsePriority([]byte(test.value))
		testkit.Equal(t, urgency, test.urgency, test.value)
		testkit.Equal(t, incremental, test.incremental, test.value)
	}
}
