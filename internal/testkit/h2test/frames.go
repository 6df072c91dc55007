// Package h2test writes and describes frames of HTTP/2 for tests.
package h2test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/testkit"
)

// Frames are frames of an HTTP/2 client that wait to be sent.
type Frames struct {
	testing.TB
	bytes.Buffer
	Framer  *http2.Framer // adds any frames, also invalid ones
	encoder *hpack.Encoder
	block   bytes.Buffer
}

// NewFrames returns no frames of a client that has sent none.
func NewFrames(t testing.TB) *Frames {
	f := &Frames{TB: t}
	f.Framer = http2.NewFramer(f, nil)
	f.Framer.AllowIllegalWrites = true
	f.encoder = hpack.NewEncoder(&f.block)
	return f
}

// Add adds frames that a text describes by their kind, their stream and their content: "POST 1 a=b,
// DATA 1 body end, RST_STREAM 1". "x*600" is a content of 600 bytes, and "/a" the path of a request.
// SETTINGS have an initial window in place of a stream, and how often the frame repeats it.
func (f *Frames) Add(text string) {
	f.Helper()
	last, size := "", 0
	for frame := range strings.SplitSeq(text, ", ") {
		at := f.Len()
		if frame == last { // quickly, for floods; no head is repeated
			f.Write(f.Bytes()[at-size:])
			continue
		}
		f.addFrame(frame)
		last, size = frame, f.Len()-at
	}
}

func (f *Frames) addFrame(frame string) {
	f.Helper()
	text, ends := strings.CutSuffix(frame, " end")
	words := append(strings.Fields(text), "", "", "")
	number, _ := strconv.ParseUint(words[1], 10, 32)
	id, content := uint32(number), words[2]
	count, _ := strconv.ParseUint(content, 10, 32)
	if letter, times, ok := strings.Cut(content, "*"); ok {
		content = strings.Repeat(letter, testkit.Value(strconv.Atoi(times))(f))
	}
	switch kind := words[0]; kind {
	case "GET", "POST":
		fields := Head(kind, "/")
		for _, word := range words[2:] {
			if name, value, ok := strings.Cut(word, "="); ok {
				fields = append(fields, name, value)
			} else if word != "" {
				fields[7] = word
			}
		}
		f.AddHead(id, kind == "GET", fields...)
	case "HEADERS": // which CONTINUATION follows
		f.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true,
			BlockFragment: f.Encode(Head("GET", "/")...)})
	case "CONTINUATION":
		f.Framer.WriteContinuation(id, ends, []byte(content))
	case "TRAILERS":
		f.AddHead(id, true, "sum", "1")
	case "TRAILERS-IN-TWO":
		block := f.Encode("sum", "1")
		f.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:2], EndStream: true})
		f.Framer.WriteContinuation(id, true, block[2:])
	case "DATA":
		f.Framer.WriteData(id, ends, []byte(content))
	case "PADDED-DATA":
		f.Framer.WriteDataPadded(id, ends, []byte(content), make([]byte, 255))
	case "RST_STREAM":
		f.Framer.WriteRSTStream(id, http2.ErrCodeCancel)
	case "WINDOW_UPDATE":
		f.Framer.WriteWindowUpdate(id, uint32(count))
	case "SETTINGS":
		all := make([]http2.Setting, max(1, count))
		for i := range all {
			all[i] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: id}
		}
		f.Framer.WriteSettings(all...)
	case "PING":
		f.Framer.WritePing(false, [8]byte{})
	case "ACK": // of the PING behind a response, or of another one
		data := [8]byte{'r', 'e', 's', 'p', 7: byte(id)}
		if id == 0 {
			copy(data[:], strings.TrimPrefix(text, "ACK "))
		}
		f.Framer.WritePing(true, data)
	case "GOAWAY":
		f.Framer.WriteGoAway(0, http2.ErrCodeNo, nil)
	case "PRIORITY":
		f.Framer.WritePriority(id, http2.PriorityParam{StreamDep: uint32(count)})
	case "PRIORITY_UPDATE":
		f.Framer.WriteRawFrame(0x10, 0, 0, []byte("\x00\x00\x00\x01u=1"+content))
	case "EXTENSION":
		f.Framer.WriteRawFrame(0xfa, 0, 0, []byte(content))
	case "":
	default:
		f.Fatalf("unknown frame %q", frame)
	}
}

// AddHead adds the head of a request, or trailers, of any names and values.
func (f *Frames) AddHead(id uint32, ends bool, fields ...string) {
	f.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.Encode(fields...), EndStream: ends,
		EndHeaders: true})
}

// Encode returns the block of fields. It must be sent: it changes the table of HPACK.
func (f *Frames) Encode(fields ...string) []byte {
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		f.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(f.block.Bytes())
}

// Head returns the fields of a request's head.
func Head(method, path string) []string {
	return []string{":method", method, ":scheme", "http", ":authority", "a", ":path", path}
}

// DescribeFrame describes a frame of a server by its type and what tests compare of it.
func DescribeFrame(f http2.Frame) string {
	text, ends := f.Header().Type.String(), false
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			text += " ack"
		}
	case *http2.MetaHeadersFrame:
		text += " " + f.PseudoValue("status")
		ends = f.StreamEnded()
	case *http2.DataFrame:
		text += " " + string(f.Data()[:min(len(f.Data()), 20)])
		ends = f.StreamEnded()
	case *http2.RSTStreamFrame:
		text += " " + f.ErrCode.String()
	case *http2.GoAwayFrame:
		text += " " + f.ErrCode.String()
	case *http2.PingFrame:
		if f.IsAck() {
			text += " ack"
		}
	}
	if ends {
		text += " end"
	}
	return text
}
