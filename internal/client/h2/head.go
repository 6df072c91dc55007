package h2

import (
	"net/http"
	"net/textproto"

	"github.com/tarehq/tare/internal/wire/http1"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// Head is the head of a response.
type Head struct {
	Status  int
	Header  http.Header
	Trailer http.Header // the names that the Trailer field announces
	Length  int64       // of Content-Length; -1 if absent
	IsLast  bool        // the response has no content

	size int
}

// onHeaders begins a field block.
func (c *Conn) onHeaders(h wire.FrameHeader, payload []byte) *wire.Error {
	i := &c.input
	fragment, f := wire.BlockOf(h, payload)
	if f != nil && f.StreamID == 0 {
		return f
	}
	if h.Flags.Has(wire.EndHeaders) {
		if f2 := c.onBlock(h, fragment, len(payload)); f2 != nil {
			return f2
		}
		return f
	}
	i.blockHead = h
	i.block = append(i.block[:0], fragment...)
	return nil
}

// onContinuation continues a field block.
func (c *Conn) onContinuation(h wire.FrameHeader, payload []byte) *wire.Error {
	i := &c.input
	// a block takes no more bytes than the list that it encodes, besides table size updates
	if len(i.block)+len(payload) > c.config.MaxHeadBytes+wire.MinMaxFrameSize {
		return wire.ConnError(wire.EnhanceYourCalm, "head block too large")
	}
	c.mu.Lock()
	f := c.debitLocked(1)
	c.mu.Unlock()
	if f != nil {
		return f
	}
	i.block = append(i.block, payload...)
	if !h.Flags.Has(wire.EndHeaders) {
		return nil
	}
	first := i.blockHead
	i.blockHead = wire.FrameHeader{}
	f = c.onBlock(first, i.block, len(i.block))
	if cap(i.block) > readBuffer {
		i.block = nil
	}
	return f
}

// onBlock handles a complete field block: a head, or a trailer section.
func (c *Conn) onBlock(h wire.FrameHeader, block []byte, size int) *wire.Error {
	b := &c.input.fields
	defer b.Trim()
	limits := http1.Limits{Bytes: c.config.MaxHeadBytes, Fields: c.config.MaxFields}
	if f := c.input.decoder.Decode(block, limits, b); f != nil {
		return f
	}
	c.mu.Lock()
	c.arrivedLocked(h.Type, h.StreamID)
	st := c.streams[h.StreamID]
	if st == nil {
		defer c.mu.Unlock()
		if h.StreamID >= c.nextID || h.StreamID&1 == 0 {
			return wire.ConnError(wire.ProtocolError, "HEADERS on an idle stream")
		}
		return c.debitLocked(1)
	}
	st.bytesIn += int64(wire.FrameHeaderSize + size)
	hasHead, isOver := st.hasHead, st.inEnded
	c.mu.Unlock()
	isLast := h.Flags.Has(wire.EndStream)
	switch {
	case isOver:
		return wire.StreamError(st.id, wire.StreamClosed, "HEADERS after END_STREAM")
	case b.IsTooLarge:
		return wire.StreamError(st.id, wire.ProtocolError, "field list too large")
	case hasHead && (b.CheckTrailers() != "" || !isLast):
		return wire.StreamError(st.id, wire.ProtocolError, "malformed trailer section")
	case hasHead:
		return c.endInput(st, b.Trailer(textproto.CanonicalMIMEHeaderKey))
	}
	return c.onHead(st, isLast)
}

// onHead handles the head of a response, or of an interim one.
func (c *Conn) onHead(st *Stream, isLast bool) *wire.Error {
	b := &c.input.fields
	if fault := b.CheckResponse(); fault != "" {
		return wire.StreamError(st.id, wire.ProtocolError, fault)
	}
	head := &Head{Status: b.StatusCode(), Length: b.Length, IsLast: isLast, size: len(b.Text)}
	isInterim := head.Status < http.StatusOK
	switch {
	case isInterim && isLast:
		return wire.StreamError(st.id, wire.ProtocolError, "interim response with END_STREAM")
	case head.Status == http.StatusSwitchingProtocols:
		return wire.StreamError(st.id, wire.ProtocolError, "status 101")
	case countLengths(b) > 1:
		return wire.StreamError(st.id, wire.ProtocolError, "more than one Content-Length")
	}
	head.Header = b.Header(textproto.CanonicalMIMEHeaderKey)
	head.Trailer, _ = http1.TakeTrailer(head.Header, maxTrailerNames, true, textproto.CanonicalMIMEHeaderKey)
	if f := c.storeHead(st, head, isInterim); f != nil {
		return f
	}
	if isLast {
		return c.endInput(st, nil)
	}
	signal(st.received)
	return nil
}

// storeHead stores a head for the goroutine that receives it.
func (c *Conn) storeHead(st *Stream, head *Head, isInterim bool) *wire.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isInterim {
		st.interims++
		if st.waitingBytes += head.size; st.interims > maxInterim || st.waitingBytes > c.config.MaxHeadBytes {
			return wire.StreamError(st.id, wire.EnhanceYourCalm, "too many interim responses")
		}
	} else {
		st.hasHead = true
		st.hasNoBody = st.hasNoBody || !http1.BodyAllowed(head.Status)
		if st.left = head.Length; head.IsLast && st.left > 0 && !st.hasNoBody {
			return wire.StreamError(st.id, wire.ProtocolError, tooShort)
		}
	}
	st.heads = append(st.heads, head)
	return nil
}

// maxInterim limits the number of interim responses to a request. Their heads that wait count
// toward the limit on a head.
const maxInterim = 100

func countLengths(b *wire.HeaderBlock) (n int) {
	for _, f := range b.Fields {
		if f.Known == http1.NameContentLength {
			n++
		}
	}
	return n
}

// maxTrailerNames limits the names that a Trailer field announces.
const maxTrailerNames = 100
