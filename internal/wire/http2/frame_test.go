package http2_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	xhttp2 "golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/wire/http2"
)

func TestFrameHeaderIsRead(t *testing.T) {
	in := []byte{0x12, 0x34, 0x56, 0x1, 0x2c, 0xff, 0xff, 0xff, 0xfe}
	for n := range in {
		if _, ok := http2.ParseFrameHeader(in[:n]); ok {
			t.Errorf("%d bytes are a header", n)
		}
	}
	want := http2.FrameHeader{Length: 0x123456, Type: http2.Headers, Flags: 0x2c, StreamID: 0x7ffffffe}
	if got, ok := http2.ParseFrameHeader(in); !ok || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	in[5] = 0x7f // the reserved bit is ignored when received, and not sent
	if got := http2.AppendFrameHeader(nil, want); !bytes.Equal(got, in) {
		t.Errorf("got %x, want %x", got, in)
	}
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
		{http2.FrameHeader{Type: http2.Ping, Length: 7}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.Ping, StreamID: 1, Length: 8}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.GoAway, Length: 7}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.GoAway, Length: 8, StreamID: 1}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.WindowUpdate, Length: 4}, http2.NoError, conn},
		{http2.FrameHeader{Type: http2.WindowUpdate, Length: 5, StreamID: 1}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: http2.Continuation}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.PriorityUpdate, Length: 4, StreamID: 1}, http2.ProtocolError, conn},
		{http2.FrameHeader{Type: http2.PriorityUpdate, Length: 3}, http2.FrameSizeError, conn},
		{http2.FrameHeader{Type: 0xbb, StreamID: 9}, http2.NoError, conn},
	} {
		err := test.header.Check(http2.MinMaxFrameSize)
		switch {
		case err == nil && test.want != http2.NoError:
			t.Errorf("%+v: no error", test.header)
		case err != nil && (err.Code != test.want || (err.StreamID == 0) != test.endsAll):
			t.Errorf("%+v: %+v", test.header, err)
		}
	}
}

// golang.org/x/net reads what the Append functions write.
func TestFramesAreReadByXNet(t *testing.T) {
	var out []byte
	out = http2.AppendSettings(out, http2.Setting{ID: http2.InitialWindowSize, Value: 70000},
		http2.Setting{ID: http2.MaxConcurrentStreams, Value: 250})
	out = http2.AppendSettingsAck(out)
	out = http2.AppendPing(out, http2.Ack, [8]byte{1, 2, 3})
	out = http2.AppendWindowUpdate(out, 5, 1000)
	out = http2.AppendRSTStream(out, 7, http2.Cancel)
	out = http2.AppendGoAway(out, 9, http2.EnhanceYourCalm)
	framer := xhttp2.NewFramer(io.Discard, bytes.NewReader(out))
	for i, want := range []string{
		"[FrameHeader SETTINGS len=12]", "[FrameHeader SETTINGS flags=ACK len=0]", "[FrameHeader PING flags=ACK len=8]",
		"[FrameHeader WINDOW_UPDATE stream=5 len=4]", "[FrameHeader RST_STREAM stream=7 len=4]",
		"[FrameHeader GOAWAY len=8]",
	} {
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Header().String(); got != want {
			t.Errorf("frame %d: %s, want %s", i, got, want)
		}
		switch f := f.(type) {
		case *xhttp2.SettingsFrame:
			if v, ok := f.Value(xhttp2.SettingInitialWindowSize); !f.IsAck() && (!ok || v != 70000) {
				t.Error("wrong setting", v)
			}
		case *xhttp2.WindowUpdateFrame:
			if f.Increment != 1000 {
				t.Error("wrong increment", f.Increment)
			}
		case *xhttp2.RSTStreamFrame:
			if f.ErrCode != xhttp2.ErrCodeCancel {
				t.Error(f.ErrCode)
			}
		case *xhttp2.GoAwayFrame:
			if f.LastStreamID != 9 || f.ErrCode != xhttp2.ErrCodeEnhanceYourCalm {
				t.Error(f)
			}
		}
	}
	if _, err := framer.ReadFrame(); !errors.Is(err, io.EOF) {
		t.Error("more frames:", err)
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
		out = http2.AppendField(out, "X-Long", string(bytes.Repeat([]byte("v"), size)))
		out = http2.EndBlock(out, len(prefix), http2.MinMaxFrameSize)
		if !bytes.HasPrefix(out, prefix) {
			t.Fatal("earlier output was changed")
		}
		framer := xhttp2.NewFramer(io.Discard, bytes.NewReader(out[len(prefix):]))
		var block []byte
		for ended := false; !ended; {
			f, err := framer.ReadFrame()
			if err != nil {
				t.Fatal(size, err)
			}
			switch f := f.(type) {
			case *xhttp2.HeadersFrame:
				block, ended = append(block, f.HeaderBlockFragment()...), f.HeadersEnded()
				if !f.StreamEnded() {
					t.Error("END_STREAM was lost")
				}
			case *xhttp2.ContinuationFrame:
				block, ended = append(block, f.HeaderBlockFragment()...), f.HeadersEnded()
			}
		}
		d := http2.NewDecoder(4096)
		var b http2.HeaderBlock
		if err := d.Decode(block, wideLimits(), &b); err != nil {
			t.Fatal(err)
		}
		if len(b.Fields) != 1 || int(b.Fields[0].Value.End-b.Fields[0].Value.Start) != size || b.StatusCode() != 200 {
			t.Errorf("%d: %d fields, status %d", size, len(b.Fields), b.StatusCode())
		}
	}
}

func TestPaddingAndPriorityAreRemoved(t *testing.T) {
	header := func(f http2.Flags) http2.FrameHeader {
		return http2.FrameHeader{Type: http2.Headers, Flags: f, StreamID: 5}
	}
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
		got, err := http2.BlockOf(header(test.flags), []byte(test.payload))
		if (err != nil) != (test.code != 0) || err != nil && err.Code != test.code {
			t.Errorf("%q: %v", test.payload, err)
		}
		if (err == nil || err.StreamID != 0) && string(got) != test.want {
			t.Errorf("%q: got %q, want %q", test.payload, got, test.want)
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
		if err := test.setting.Check(); (err != nil) != (test.want != 0) || err != nil && err.Code != test.want {
			t.Errorf("%+v: %v", test.setting, err)
		}
	}
	if err := http2.CheckSettings(http2.FrameHeader{Type: http2.Settings, Length: 7}); err == nil {
		t.Error("a length that is no multiple of 6 is accepted")
	}
	if err := http2.CheckSettings(http2.FrameHeader{Type: http2.Settings, Length: 6, Flags: http2.Ack}); err == nil {
		t.Error("an acknowledgment with a payload is accepted")
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
		if u, i := http2.ParsePriority([]byte(test.value)); u != test.urgency || i != test.incremental {
			t.Errorf("%q: %d %v", test.value, u, i)
		}
	}
}
