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
	// frameHead is the size of a frame's head (RFC 9113, 4.1).
	frameHead = 9
	// largestFrame is what every peer takes (RFC 9113, 4.2).
	largestFrame = 16 << 10
	// largestWindow is how much a peer may send without being told to go on (RFC 9113, 6.9.1).
	largestWindow = 1<<31 - 1
	// firstWindow is what that is before anything was said.
	firstWindow = 1<<16 - 1
	// lastStream is the highest number of a stream.
	lastStream = 1<<31 - 1
)

func (overHTTP2) readers(n int, s shared) []reader {
	all := make([]reader, n)
	for i := range all {
		r := &http2Reader{shared: s, streams: make([]http2Stream, s.depth)}
		for slot := range r.streams {
			r.streams[slot].checked = s.expected.newCheck()
		}
		r.reset()
		all[i] = r
	}
	return all
}

// http2Reader is the reader of an HTTP/2 connection.
type http2Reader struct {
	shared
	framer  *http2.Framer
	in      feed
	out     appender
	decoder *hpack.Decoder
	partial []byte // of a frame that came in pieces

	streams []http2Stream  // by slot
	slots   map[uint32]int // of the streams under way
	next    uint32         // stream
	most    uint32         // streams that the server takes at a time
	room    int64          // the connection's, for bodies
	initial int64          // a new stream's
	read    uint32         // bytes of bodies that the server was not told we took

	block   *http2Stream // whose header block is coming; nil for none of ours
	ends    bool         // the stream ends with the block
	telling *http2Stream // whose head is the first of all
	replies []func() error
}

// http2Stream is a request under way.
type http2Stream struct {
	id   uint32
	rest []byte // of the body, unsent
	room int64
	kept []byte // memory for rest

	answer
	length int64 // of the response's body, as it says; -1 if it does not
}

func (r *http2Reader) untilClose() bool { return false }

func (r *http2Reader) reset() {
	r.framer = http2.NewFramer(&r.out, &r.in)
	r.framer.SetReuseFrames()
	r.decoder = hpack.NewDecoder(4096, r.field)
	r.decoder.SetMaxStringLength(maxHead)
	r.partial, r.block, r.replies = r.partial[:0], nil, nil
	r.slots, r.next, r.most = make(map[uint32]int), 1, maxPipeline
	r.room, r.initial, r.read = firstWindow, firstWindow, 0
	for slot := range r.streams {
		r.streams[slot].rest = nil // of a body that the last connection did not take
	}
}

func (r *http2Reader) greet(dst []byte) []byte {
	r.out.b = append(dst, http2.ClientPreface...)
	_ = r.framer.WriteSettings( // an appender takes all
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: largestWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHead},
	)
	_ = r.framer.WriteWindowUpdate(0, largestWindow-firstWindow)
	return r.out.b
}

// takes reports whether the server takes one more request.
func (r *http2Reader) takes(flying int) bool { return uint32(flying) < r.most }

func (r *http2Reader) ask(dst, text []byte, isHead bool, slot int) (out []byte, last bool) {
	block, body := rendered(text)
	st := &r.streams[slot]
	*st = http2Stream{id: r.next, room: r.initial, kept: st.kept, length: -1, answer: answer{slot: slot, isHead: isHead, checked: st.checked}}
	r.slots[st.id] = slot
	r.next += 2
	r.out.b = dst
	for first := true; first || len(block) > 0; first = false {
		n := min(len(block), largestFrame)
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
		st.rest = body
		if r.write(st); len(st.rest) > 0 { // the caller's memory is for now
			st.kept = append(st.kept[:0], st.rest...)
			st.rest = st.kept
		}
	}
	return r.out.b, r.next > lastStream
}

// write appends as much of a body as the server takes.
func (r *http2Reader) write(st *http2Stream) {
	for len(st.rest) > 0 {
		n := min(int64(len(st.rest)), largestFrame, st.room, r.room)
		if n <= 0 {
			return
		}
		_ = r.framer.WriteData(st.id, int(n) == len(st.rest), st.rest[:n])
		st.rest = st.rest[n:]
		st.room -= n
		r.room -= n
	}
}

func (r *http2Reader) reply(dst []byte) []byte {
	r.out.b = dst
	for _, reply := range r.replies {
		_ = reply()
	}
	r.replies = r.replies[:0]
	if r.read > largestWindow/2 {
		_ = r.framer.WriteWindowUpdate(0, r.read)
		r.read = 0
	}
	if r.room > 0 {
		for i := range r.streams {
			r.write(&r.streams[i])
		}
	}
	return r.out.b
}

// take takes in one frame, or keeps what there is of it.
func (r *http2Reader) take(in []byte, a *answer) (n int, err error) {
	*a = answer{slot: -1}
	frame, n, err := r.gather(in)
	if err != nil || frame == nil {
		return n, err
	}
	r.in.b = frame
	f, err := r.framer.ReadFrame()
	if err != nil {
		return n, err
	}
	r.partial = r.partial[:0]
	return n, r.frame(f, a)
}

// gather returns the next frame, if all of it has come, and how much of the input it took.
func (r *http2Reader) gather(in []byte) (frame []byte, n int, err error) {
	if len(r.partial) == 0 && len(in) >= frameHead {
		size, err := frameSize(in)
		if err != nil || len(in) >= size {
			return in[:min(size, len(in))], size, err
		}
	}
	if n = min(len(in), max(0, frameHead-len(r.partial))); n > 0 {
		r.partial = append(r.partial, in[:n]...)
	}
	if len(r.partial) < frameHead {
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

// frameSize returns the size of a frame, head included.
func frameSize(b []byte) (int, error) {
	n := int(b[0])<<16 + int(b[1])<<8 + int(b[2])
	if n > largestFrame {
		return 0, fmt.Errorf("a frame of %d bytes came, more than the %d that we take", n, largestFrame)
	}
	return frameHead + n, nil
}

// frame takes in a frame.
func (r *http2Reader) frame(f http2.Frame, a *answer) error {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		r.block, r.ends = r.stream(f.StreamID), f.StreamEnded()
		return r.fragment(f.HeaderBlockFragment(), f.HeadersEnded(), a)
	case *http2.ContinuationFrame:
		return r.fragment(f.HeaderBlockFragment(), f.HeadersEnded(), a)
	case *http2.DataFrame:
		r.data(f, a)
	case *http2.RSTStreamFrame:
		if st := r.stream(f.StreamID); st != nil {
			st.again = f.ErrCode == http2.ErrCodeRefusedStream
			st.fault = "the server reset the stream: " + f.ErrCode.String()
			r.end(st, a)
		}
	case *http2.SettingsFrame:
		return r.settings(f)
	case *http2.WindowUpdateFrame:
		if st := r.stream(f.StreamID); st != nil {
			st.room += int64(f.Increment)
		} else if f.StreamID == 0 {
			r.room += int64(f.Increment)
		}
	case *http2.PingFrame:
		if data := f.Data; !f.IsAck() {
			r.replies = append(r.replies, func() error { return r.framer.WritePing(true, data) })
		}
	case *http2.GoAwayFrame:
		a.goes, a.lastStream = true, f.LastStreamID
		if f.ErrCode != http2.ErrCodeNo {
			return fmt.Errorf("the server ended the connection: %v %q", f.ErrCode, f.DebugData())
		}
	case *http2.PushPromiseFrame:
		return errors.New("the server pushes, which it was asked not to")
	}
	return nil
}

// stream returns the stream of that number that is under way; nil if there is none.
func (r *http2Reader) stream(id uint32) *http2Stream {
	if slot, ok := r.slots[id]; ok {
		return &r.streams[slot]
	}
	return nil
}

// number returns the number of the stream in a slot.
func (r *http2Reader) number(slot int) uint32 { return r.streams[slot].id }

func (r *http2Reader) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	r.replies = append(r.replies, r.framer.WriteSettingsAck)
	return f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingMaxConcurrentStreams:
			r.most = s.Val
		case http2.SettingInitialWindowSize:
			if s.Val > largestWindow {
				return errors.New("the server's window is too large")
			}
			for _, slot := range r.slots {
				r.streams[slot].room += int64(s.Val) - r.initial
			}
			r.initial = int64(s.Val)
		}
		return nil
	})
}

// fragment takes in a part of a header block. One that belongs to no stream of ours has to be
// read, too: it may change the table of later ones.
func (r *http2Reader) fragment(b []byte, ended bool, a *answer) error {
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
	r.block, r.telling = nil, nil
	if st == nil {
		return nil
	}
	switch {
	case st.got == inHead && st.status >= 200:
		st.begin(st.status, false)
	case st.got == inHead: // interim
		st.got = nothing
	}
	*a = st.answer
	if r.ends {
		r.end(st, a)
	}
	return nil
}

// field takes in a field of a header block. It is called by the decoder.
func (r *http2Reader) field(f hpack.HeaderField) {
	st := r.block
	if st == nil || st.got >= inBody { // trailers
		return
	}
	if st.got == nothing {
		st.got, st.length = inHead, -1
		if st.checked != nil {
			st.checked.begin()
		}
	}
	switch f.Name {
	case ":status":
		st.status, _ = strconv.Atoi(f.Value)
		st.status = min(st.status, 999)
		if r.tally.head == "" && st.status >= 200 {
			r.tally.head, r.telling = "HTTP/2 "+f.Value+"\r\n", st
		}
		return
	case "content-length":
		if n, err := strconv.ParseInt(f.Value, 10, 64); err == nil {
			st.length = n
		}
	}
	if r.telling == st {
		r.tally.head += f.Name + ": " + f.Value + "\r\n"
	}
	if st.checked != nil {
		st.checked.field([]byte(f.Name), []byte(f.Value))
	}
}

// data takes in a piece of a body.
func (r *http2Reader) data(f *http2.DataFrame, a *answer) {
	r.read += f.Length // padding included
	st := r.stream(f.StreamID)
	if st == nil {
		return
	}
	st.data(f.Data())
	*a = st.answer
	if f.StreamEnded() {
		r.end(st, a)
	}
}

// end ends a stream.
func (r *http2Reader) end(st *http2Stream, a *answer) {
	switch {
	case st.fault != "":
	case st.got != inBody:
		st.fault = "the server ended the stream before a response"
	case st.length >= 0 && st.length != st.body && !st.isHead && st.status != 304:
		st.fault = fmt.Sprintf("a body of %d bytes came, and content-length said %d", st.body, st.length)
	}
	st.got = whole
	*a = st.answer
	delete(r.slots, st.id)
	st.rest = nil
}

// feed is what the framer reads from.
type feed struct{ b []byte }

func (f *feed) Read(b []byte) (int, error) {
	if len(f.b) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(b, f.b)
	f.b = f.b[n:]
	return n, nil
}
