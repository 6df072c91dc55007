package load

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// frameHeaderSize is the size of a frame header (RFC 9113, 4.1).
	frameHeaderSize = 9
	// maxFrameSize is the frame payload that every peer accepts (RFC 9113, 4.2).
	maxFrameSize = 16 << 10
	// maxWindow is the largest flow-control window (RFC 9113, 6.9.1).
	maxWindow = 1<<31 - 1
	// initialWindowSize is the flow-control window before any settings (RFC 9113, 6.9.2).
	initialWindowSize = 1<<16 - 1
	// maxStreamID is the highest stream ID.
	maxStreamID = 1<<31 - 1
)

func (http2Protocol) newReaders(n int, s readerConfig) []reader {
	all := make([]reader, n)
	for i := range all {
		r := &http2Reader{readerConfig: s, streams: make([]http2Stream, s.maxInFlight)}
		for slot := range r.streams {
			r.streams[slot].checked = s.expected.newCheck()
		}
		r.reset()
		all[i] = r
	}
	return all
}

// http2Reader is the reader of an HTTP/2 connection. Each stream passes through these stages:
//
//	beforeHead → inHead       a field of a header block
//	inHead → beforeHead       the block was an interim response
//	inHead → inBody           the block was a final response
//	any → complete            END_STREAM, RST_STREAM or an error of the stream
//
// Output is appended to out: the preface, requests, bodies as windows allow, and replies to control
// frames.
type http2Reader struct {
	readerConfig
	framer  *http2.Framer
	in      frameSource
	out     byteAppender
	decoder *hpack.Decoder
	partial []byte // a frame received in pieces

	streams      []http2Stream  // by slot
	slots        map[uint32]int // slots of active streams, by stream ID
	next         uint32         // next stream ID
	maxStreams   uint32         // the server's limit of concurrent streams
	sendWindow   int64          // the connection's send window
	streamWindow int64          // initial send window of a new stream
	unackedBytes uint32         // bytes of bodies not yet acknowledged by WINDOW_UPDATE

	block           *http2Stream // stream of the current header block; nil if it is not active
	blockEndsStream bool         // the current header block has END_STREAM
	firstHead       *http2Stream // stream whose head becomes Result.Head
	replies         []func() error
}

// http2Stream is an active request.
type http2Stream struct {
	id         uint32
	unsent     []byte // part of the body not sent yet
	sendWindow int64
	restBuffer []byte // memory for unsent

	response
	length int64 // the response's content-length; -1 without one
}

func (r *http2Reader) untilClose() bool { return false }

func (r *http2Reader) reset() {
	r.framer = http2.NewFramer(&r.out, &r.in)
	r.framer.SetReuseFrames()
	r.decoder = hpack.NewDecoder(4096, r.field)
	r.decoder.SetMaxStringLength(maxHead)
	r.partial, r.block, r.replies = r.partial[:0], nil, nil
	r.slots, r.next, r.maxStreams = make(map[uint32]int), 1, maxPipeline
	r.sendWindow, r.streamWindow, r.unackedBytes = initialWindowSize, initialWindowSize, 0
	for slot := range r.streams {
		r.streams[slot].unsent = nil // may be left from the last connection
	}
}

func (r *http2Reader) appendPreface(dst []byte) []byte {
	r.out.b = append(dst, http2.ClientPreface...)
	_ = r.framer.WriteSettings( // an appender takes all
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHead},
	)
	_ = r.framer.WriteWindowUpdate(0, maxWindow-initialWindowSize)
	return r.out.b
}

// acceptsRequest reports whether the server allows one more concurrent stream.
func (r *http2Reader) acceptsRequest(flying int) bool { return uint32(flying) < r.maxStreams }

func (r *http2Reader) appendRequest(dst, text []byte, isHead bool, slot int) (out []byte, last bool) {
	block, body := splitRendered(text)
	st := &r.streams[slot]
	*st = http2Stream{id: r.next, sendWindow: r.streamWindow, restBuffer: st.restBuffer, length: -1,
		response: response{slot: slot, isHead: isHead, checked: st.checked}}
	r.slots[st.id] = slot
	r.next += 2
	r.out.b = dst
	for first := true; first || len(block) > 0; first = false {
		n := min(len(block), maxFrameSize)
		if first {
			_ = r.framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: st.id, BlockFragment: block[:n], EndHeaders: n == len(block), EndStream: len(body) == 0,
			})
		} else {
			_ = r.framer.WriteContinuation(st.id, n == len(block), block[:n])
		}
		block = block[n:]
	}
	if len(body) > 0 {
		st.unsent = body
		if r.write(st); len(st.unsent) > 0 { // the caller reuses its memory
			st.restBuffer = append(st.restBuffer[:0], st.unsent...)
			st.unsent = st.restBuffer
		}
	}
	return r.out.b, r.next > maxStreamID
}

// write appends as much of a stream's body as the windows allow.
func (r *http2Reader) write(st *http2Stream) {
	for len(st.unsent) > 0 {
		n := min(int64(len(st.unsent)), maxFrameSize, st.sendWindow, r.sendWindow)
		if n <= 0 {
			return
		}
		_ = r.framer.WriteData(st.id, int(n) == len(st.unsent), st.unsent[:n])
		st.unsent = st.unsent[n:]
		st.sendWindow -= n
		r.sendWindow -= n
	}
}

func (r *http2Reader) appendReplies(dst []byte) []byte {
	r.out.b = dst
	for _, reply := range r.replies {
		_ = reply()
	}
	r.replies = r.replies[:0]
	if r.unackedBytes > maxWindow/2 {
		_ = r.framer.WriteWindowUpdate(0, r.unackedBytes)
		r.unackedBytes = 0
	}
	if r.sendWindow > 0 {
		for i := range r.streams {
			r.write(&r.streams[i])
		}
	}
	return r.out.b
}

// consume handles one frame, or keeps an incomplete one.
func (r *http2Reader) consume(in []byte, a *response) (n int, err error) {
	*a = response{slot: -1}
	frame, n, err := r.nextFrame(in)
	if err != nil || frame == nil {
		return n, err
	}
	r.in.b = frame
	f, err := r.framer.ReadFrame()
	if err != nil {
		return n, err
	}
	r.partial = r.partial[:0]
	return n, r.handleFrame(f, a)
}

// nextFrame returns the next frame if it is complete, and how many bytes of input it used.
func (r *http2Reader) nextFrame(in []byte) (frame []byte, n int, err error) {
	if len(r.partial) == 0 && len(in) >= frameHeaderSize {
		size, err := frameSize(in)
		if err != nil || len(in) >= size {
			return in[:min(size, len(in))], size, err
		}
	}
	if n = min(len(in), max(0, frameHeaderSize-len(r.partial))); n > 0 {
		r.partial = append(r.partial, in[:n]...)
	}
	if len(r.partial) < frameHeaderSize {
		return nil, n, nil
	}
	size, err := frameSize(r.partial)
	if err != nil {
		return nil, n, err
	}
	more := min(size-len(r.partial), len(in)-n)
	r.partial = append(r.partial, in[n:n+more]...)
	if n += more; len(r.partial) < size {
		return nil, n, nil
	}
	return r.partial, n, nil
}

// frameSize returns the size of a frame including its header.
func frameSize(b []byte) (int, error) {
	n := int(b[0])<<16 + int(b[1])<<8 + int(b[2])
	if n > maxFrameSize {
		return 0, fmt.Errorf("frame of %d bytes exceeds the limit of %d", n, maxFrameSize)
	}
	return frameHeaderSize + n, nil
}

// handleFrame handles a frame.
func (r *http2Reader) handleFrame(f http2.Frame, a *response) error {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		r.block, r.blockEndsStream = r.stream(f.StreamID), f.StreamEnded()
		return r.headerFragment(f.HeaderBlockFragment(), f.HeadersEnded(), a)
	case *http2.ContinuationFrame:
		return r.headerFragment(f.HeaderBlockFragment(), f.HeadersEnded(), a)
	case *http2.DataFrame:
		r.data(f, a)
	case *http2.RSTStreamFrame:
		if st := r.stream(f.StreamID); st != nil {
			st.retry = f.ErrCode == http2.ErrCodeRefusedStream
			st.streamError = "the server reset the stream: " + f.ErrCode.String()
			r.endStream(st, a)
		}
	case *http2.SettingsFrame:
		return r.settings(f)
	case *http2.WindowUpdateFrame:
		if st := r.stream(f.StreamID); st != nil {
			st.sendWindow += int64(f.Increment)
		} else if f.StreamID == 0 {
			r.sendWindow += int64(f.Increment)
		}
	case *http2.PingFrame:
		if data := f.Data; !f.IsAck() {
			r.replies = append(r.replies, func() error { return r.framer.WritePing(true, data) })
		}
	case *http2.GoAwayFrame:
		a.goAway, a.lastStreamID = true, f.LastStreamID
		if f.ErrCode != http2.ErrCodeNo {
			return fmt.Errorf("the server closed the connection: %v %q", f.ErrCode, f.DebugData())
		}
	case *http2.PushPromiseFrame:
		return errors.New("the server sent PUSH_PROMISE although push is disabled")
	}
	return nil
}

// stream returns the active stream with that ID, or nil.
func (r *http2Reader) stream(id uint32) *http2Stream {
	if slot, ok := r.slots[id]; ok {
		return &r.streams[slot]
	}
	return nil
}

// streamID returns the ID of the stream in a slot.
func (r *http2Reader) streamID(slot int) uint32 { return r.streams[slot].id }

func (r *http2Reader) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	r.replies = append(r.replies, r.framer.WriteSettingsAck)
	return f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingMaxConcurrentStreams:
			r.maxStreams = s.Val
		case http2.SettingInitialWindowSize:
			if s.Val > maxWindow {
				return errors.New("SETTINGS_INITIAL_WINDOW_SIZE exceeds 2^31-1")
			}
			for _, slot := range r.slots {
				r.streams[slot].sendWindow += int64(s.Val) - r.streamWindow
			}
			r.streamWindow = int64(s.Val)
		}
		return nil
	})
}

// headerFragment handles a part of a header block. Blocks of inactive streams are decoded, too,
// because they may change the dynamic table.
func (r *http2Reader) headerFragment(b []byte, ended bool, a *response) error {
	if _, err := r.decoder.Write(b); err != nil {
		return fmt.Errorf("header block: %w", err)
	}
	if !ended {
		return nil
	}
	if err := r.decoder.Close(); err != nil {
		return fmt.Errorf("header block: %w", err)
	}
	st := r.block
	r.block, r.firstHead = nil, nil
	if st == nil {
		return nil
	}
	switch {
	case st.stage == inHead && st.status >= 200:
		st.begin(st.status, false)
	case st.stage == inHead: // interim response
		st.stage = beforeHead
	}
	*a = st.response
	if r.blockEndsStream {
		r.endStream(st, a)
	}
	return nil
}

// field handles a field of a header block. The HPACK decoder calls it.
func (r *http2Reader) field(f hpack.HeaderField) {
	st := r.block
	if st == nil || st.stage >= inBody { // trailers
		return
	}
	if st.stage == beforeHead {
		st.stage, st.length = inHead, -1
		if st.checked != nil {
			st.checked.begin()
		}
	}
	switch f.Name {
	case ":status":
		st.status, _ = strconv.Atoi(f.Value)
		st.status = min(st.status, 999)
		if r.tally.head == "" && st.status >= 200 {
			r.tally.head, r.firstHead = "HTTP/2 "+f.Value+"\r\n", st
		}
		return
	case "content-length":
		if n, err := strconv.ParseInt(f.Value, 10, 64); err == nil {
			st.length = n
		}
	}
	if r.firstHead == st {
		r.tally.head += f.Name + ": " + f.Value + "\r\n"
	}
	if st.checked != nil {
		st.checked.field([]byte(f.Name), []byte(f.Value))
	}
}

// data handles a DATA frame.
func (r *http2Reader) data(f *http2.DataFrame, a *response) {
	r.unackedBytes += f.Length // padding included
	st := r.stream(f.StreamID)
	if st == nil {
		return
	}
	st.data(f.Data())
	*a = st.response
	if f.StreamEnded() {
		r.endStream(st, a)
	}
}

// endStream ends a stream.
func (r *http2Reader) endStream(st *http2Stream, a *response) {
	switch {
	case st.streamError != "":
	case st.stage != inBody:
		st.streamError = "the server ended the stream before a response"
	case st.length >= 0 && st.length != st.body && !st.isHead && st.status != 304:
		st.streamError = fmt.Sprintf("body of %d bytes, but content-length is %d", st.body, st.length)
	}
	st.stage = complete
	*a = st.response
	delete(r.slots, st.id)
	st.unsent = nil
}

// frameSource is what the framer reads from.
type frameSource struct{ b []byte }

func (f *frameSource) Read(b []byte) (int, error) {
	if len(f.b) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(b, f.b)
	f.b = f.b[n:]
	return n, nil
}
