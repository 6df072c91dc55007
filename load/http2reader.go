package load

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
	"github.com/tarehq/tare/internal/wire/http2"
)

func (http2Protocol) newReader(s *readerShared) reader {
	r := &http2Reader{tally: s.tally, streams: make([]http2Stream, s.maxInFlight)}
	for slot := range r.streams {
		r.streams[slot].response.checked = s.expected.newCheck()
	}
	r.reset()
	return r
}

// http2Reader is the reader of an HTTP/2 connection. Each stream passes through these stages:
//
//	beforeHead → inBody       the header block of a final response
//	any → complete            END_STREAM, RST_STREAM or an error of the stream
type http2Reader struct {
	tally   *tally
	decoder http2.Decoder
	partial []byte // a frame received in pieces

	streams      []http2Stream  // by slot
	slots        map[uint32]int // slots of active streams, by stream ID
	next         uint32         // next stream ID
	maxStreams   uint32         // the server's limit of concurrent streams; 1 until it is known
	hasSettings  bool           // the server's SETTINGS have arrived
	sendWindow   int64          // the connection's send window
	streamWindow int64          // initial send window of a new stream
	unackedBytes uint32         // bytes of bodies not yet acknowledged by WINDOW_UPDATE

	blockID         uint32 // stream of the current header block; 0 if there is none
	blockEndsStream bool   // the current header block has END_STREAM
	fragments       []byte // of the current header block
	head            http2.HeaderBlock
	replies         []byte // to control frames
}

type http2Stream struct {
	id         uint32
	unsent     []byte // part of the body not sent yet
	sendWindow int64
	restBuffer []byte // memory for unsent

	response response
	length   int64 // the response's content-length; -1 without one
}

func (r *http2Reader) untilClose() bool { return false }

func (r *http2Reader) reset() {
	r.decoder = http2.NewDecoder(http2.DefaultTableSize)
	r.partial, r.blockID, r.fragments, r.replies = r.partial[:0], 0, r.fragments[:0], r.replies[:0]
	r.slots, r.next, r.maxStreams, r.hasSettings = make(map[uint32]int), 1, 1, false
	r.sendWindow, r.streamWindow, r.unackedBytes = http2.InitialWindow, http2.InitialWindow, 0
	for slot := range r.streams {
		r.streams[slot].unsent = nil // may be left from the last connection
	}
}

// appendPreface appends what the client sends first on a new connection.
func (r *http2Reader) appendPreface(dst []byte) []byte {
	dst = http2.AppendSettings(append(dst, http2.Preface...),
		http2.Setting{ID: http2.EnablePush, Value: 0},
		http2.Setting{ID: http2.InitialWindowSize, Value: http2.MaxWindow},
		http2.Setting{ID: http2.MaxHeaderListSize, Value: maxHead},
	)
	return http2.AppendWindowUpdate(dst, 0, http2.MaxWindow-http2.InitialWindow)
}

func (r *http2Reader) acceptsRequest(inFlight int) bool { return uint32(inFlight) < r.maxStreams }

// appendRequest appends a rendered request whose response will have the given slot. It reports
// whether it is the last one that the connection can carry.
func (r *http2Reader) appendRequest(dst, text []byte, isHead bool, slot int) (out []byte, last bool) {
	block, body := splitRendered(text)
	st := &r.streams[slot]
	*st = http2Stream{id: r.next, sendWindow: r.streamWindow, restBuffer: st.restBuffer, length: -1,
		response: response{slot: slot, isHead: isHead, checked: st.response.checked}}
	r.slots[st.id] = slot
	r.next += 2
	h := http2.FrameHeader{Type: http2.Headers, StreamID: st.id}
	if len(body) == 0 {
		h.Flags = http2.EndStream
	}
	out = append(http2.AppendFrameHeader(dst, h), block...)
	out = http2.EndBlock(out, len(dst), http2.MinMaxFrameSize)
	if len(body) > 0 {
		st.unsent = body
		if out = r.appendBody(out, st); len(st.unsent) > 0 { // the caller reuses its memory
			st.restBuffer = append(st.restBuffer[:0], st.unsent...)
			st.unsent = st.restBuffer
		}
	}
	return out, r.next > http2.MaxStreamID
}

// appendBody appends as much of a stream's body as the windows allow.
func (r *http2Reader) appendBody(out []byte, st *http2Stream) []byte {
	for len(st.unsent) > 0 {
		n := min(int64(len(st.unsent)), http2.MinMaxFrameSize, st.sendWindow, r.sendWindow)
		if n <= 0 {
			break
		}
		h := http2.FrameHeader{Type: http2.Data, StreamID: st.id, Length: uint32(n)}
		if int(n) == len(st.unsent) {
			h.Flags = http2.EndStream
		}
		out = append(http2.AppendFrameHeader(out, h), st.unsent[:n]...)
		st.unsent = st.unsent[n:]
		st.sendWindow -= n
		r.sendWindow -= n
	}
	return out
}

func (r *http2Reader) appendReplies(dst []byte) []byte {
	dst = append(dst, r.replies...)
	r.replies = r.replies[:0]
	if r.unackedBytes > http2.MaxWindow/2 {
		dst = http2.AppendWindowUpdate(dst, 0, r.unackedBytes)
		r.unackedBytes = 0
	}
	if r.sendWindow > 0 {
		for i := range r.streams {
			dst = r.appendBody(dst, &r.streams[i])
		}
	}
	return dst
}

// consume handles one frame, or keeps an incomplete one.
func (r *http2Reader) consume(in []byte, a *response) (n int, err error) {
	*a = response{slot: -1}
	frame, n, err := r.nextFrame(in)
	if err != nil || frame == nil {
		return n, err
	}
	r.partial = r.partial[:0]
	h, _ := http2.ParseFrameHeader(frame)
	return n, r.handleFrame(h, frame[http2.FrameHeaderSize:], a)
}

// nextFrame returns the next frame if it is complete, and how many bytes of input it used.
func (r *http2Reader) nextFrame(in []byte) (frame []byte, n int, err error) {
	if len(r.partial) == 0 && len(in) >= http2.FrameHeaderSize {
		size, err := frameSize(in)
		if err != nil || len(in) >= size {
			return in[:min(size, len(in))], size, err
		}
	}
	if n = min(len(in), max(0, http2.FrameHeaderSize-len(r.partial))); n > 0 {
		r.partial = append(r.partial, in[:n]...)
	}
	if len(r.partial) < http2.FrameHeaderSize {
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

func frameSize(b []byte) (int, error) {
	h, _ := http2.ParseFrameHeader(b)
	if err := h.Check(http2.MinMaxFrameSize); err != nil {
		return 0, err
	}
	return http2.FrameHeaderSize + int(h.Length), nil
}

func (r *http2Reader) handleFrame(h http2.FrameHeader, payload []byte, a *response) error {
	if err := h.CheckOrder(true, r.blockID); err != nil { // SETTINGS may come later
		return err
	}
	switch h.Type {
	case http2.Headers:
		block, err := http2.BlockOf(h, payload)
		if err != nil {
			return err
		}
		r.blockID, r.blockEndsStream = h.StreamID, h.Flags.Has(http2.EndStream)
		return r.headerFragment(h, block, a)
	case http2.Continuation:
		return r.headerFragment(h, payload, a)
	case http2.Data:
		return r.data(h, payload, a)
	case http2.RSTStream:
		if st := r.stream(h.StreamID); st != nil {
			code := http2.RSTStreamOf(payload)
			st.response.refused = code == http2.RefusedStream
			st.response.streamError = "the server reset the stream: " + code.String()
			r.endStream(st, a)
		}
	case http2.Settings:
		return r.settings(h, payload)
	case http2.WindowUpdate:
		return r.windowUpdate(h, payload)
	case http2.Ping:
		if !h.Flags.Has(http2.Ack) {
			r.replies = http2.AppendPing(r.replies, http2.Ack, [8]byte(payload))
		}
	case http2.GoAway:
		last, code, debug := http2.GoAwayOf(payload)
		a.goAway, a.lastStreamID = true, last
		if code != http2.NoError {
			return fmt.Errorf("the server closed the connection: %v %q", code, debug)
		}
	}
	return nil
}

func (r *http2Reader) stream(id uint32) *http2Stream {
	if slot, ok := r.slots[id]; ok {
		return &r.streams[slot]
	}
	return nil
}

func (r *http2Reader) streamID(slot int) uint32 { return r.streams[slot].id }

func (r *http2Reader) windowUpdate(h http2.FrameHeader, payload []byte) error {
	increment, err := http2.WindowUpdateOf(h, payload)
	if err != nil {
		return err
	}
	if st := r.stream(h.StreamID); st != nil {
		st.sendWindow += int64(increment)
	} else if h.StreamID == 0 {
		r.sendWindow += int64(increment)
	}
	return nil
}

func (r *http2Reader) settings(h http2.FrameHeader, payload []byte) error {
	if h.Flags.Has(http2.Ack) {
		return nil
	}
	r.replies = http2.AppendSettingsAck(r.replies)
	if !r.hasSettings {
		r.hasSettings, r.maxStreams = true, maxPipeline
	}
	for s := range http2.SettingsOf(payload) {
		if err := s.Check(); err != nil {
			return err
		}
		switch s.ID {
		case http2.MaxConcurrentStreams:
			r.maxStreams = s.Value
		case http2.InitialWindowSize:
			for _, slot := range r.slots {
				r.streams[slot].sendWindow += int64(s.Value) - r.streamWindow
			}
			r.streamWindow = int64(s.Value)
		}
	}
	return nil
}

// headerFragment handles a part of a header block. Blocks of inactive streams are decoded, too,
// because they may change the dynamic table.
func (r *http2Reader) headerFragment(h http2.FrameHeader, block []byte, a *response) error {
	isWhole := len(r.fragments) == 0
	if ends := h.Flags.Has(http2.EndHeaders); !ends || !isWhole {
		if r.fragments = append(r.fragments, block...); len(r.fragments) > maxHead {
			return fmt.Errorf("header block of more than %d bytes", maxHead)
		}
		if !ends {
			return nil
		}
		block = r.fragments
	}
	st := r.stream(r.blockID)
	r.blockID, r.fragments = 0, r.fragments[:0]
	if err := r.decoder.Decode(block, headLimits(), &r.head); err != nil {
		return err
	}
	switch {
	case st == nil:
		return nil
	case r.head.IsTooLarge:
		return fmt.Errorf("header block of more than %d bytes", maxHead)
	case st.response.stage == beforeHead:
		r.responseHead(st)
	default: // a trailer section
		r.checkFields(st)
	}
	*a = st.response
	if r.blockEndsStream || st.response.streamError != "" {
		r.endStream(st, a)
	}
	return nil
}

func (r *http2Reader) responseHead(st *http2Stream) {
	if fault := r.head.CheckResponse(); fault != "" {
		st.response.streamError = "malformed response: " + fault
		return
	}
	status := r.head.StatusCode()
	if status < 200 {
		return
	}
	st.response.begin(status, false)
	if st.length = r.head.Length; st.length < 0 && !r.blockEndsStream {
		st.response.events = newEventStream(r.tally, r.head.Text, r.head.Fields)
	}
	if r.tally.Head == "" {
		r.tally.Head = r.headText()
	}
	if st.response.checked != nil {
		st.response.checked.begin()
		r.checkFields(st)
	}
}

func (r *http2Reader) checkFields(st *http2Stream) {
	if k := st.response.checked; k != nil && len(k.expected.fields) > 0 {
		for _, f := range r.head.Fields {
			k.field([]byte(r.nameOf(f)), f.Value.In(r.head.Text))
		}
	}
}

func (r *http2Reader) nameOf(f http1.Field) string {
	if f.Known != http1.NameUnknown {
		return strings.ToLower(f.Known.String())
	}
	return string(f.Name.In(r.head.Text))
}

func (r *http2Reader) headText() string {
	text := "HTTP/2 " + string(r.head.Status.In(r.head.Text)) + "\r\n"
	for _, f := range r.head.Fields {
		text += r.nameOf(f) + ": " + string(f.Value.In(r.head.Text)) + "\r\n"
	}
	return text
}

func (r *http2Reader) data(h http2.FrameHeader, payload []byte, a *response) error {
	content, err := http2.Unpad(h, payload)
	if err != nil {
		return err
	}
	r.unackedBytes += h.Length // padding included
	st := r.stream(h.StreamID)
	if st == nil {
		return nil
	}
	st.response.data(content)
	*a = st.response
	if h.Flags.Has(http2.EndStream) {
		r.endStream(st, a)
	}
	return nil
}

func (r *http2Reader) endStream(st *http2Stream, a *response) {
	switch {
	case st.response.streamError != "":
	case st.response.stage != inBody:
		st.response.streamError = "the server ended the stream before a response"
	case st.length >= 0 && st.length != st.response.body && !st.response.isHead && st.response.status != 304:
		st.response.streamError = fmt.Sprintf("body of %d bytes, but content-length is %d", st.response.body, st.length)
	}
	st.response.stage = complete
	*a = st.response
	delete(r.slots, st.id)
	st.unsent = nil
}
