package h2

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/http1"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// Limits of a head block that CONTINUATION frames follow. Its encoded size is limited like the
// decoded one. An honest client fills each frame but the last: one with less than fullFragment
// costs a unit of the ledger.
const (
	maxFragments = 128
	fullFragment = 1 << 10
)

// onHeaders begins a head block (RFC 9113, 6.2).
func (s *Session) onHeaders(fr frame) *wire.Error {
	if fr.StreamID%2 == 0 {
		return wire.ConnError(wire.ProtocolError, "even stream identifier")
	}
	block, fault := wire.BlockOf(fr.FrameHeader, fr.content)
	if fault != nil && fault.StreamID == 0 {
		return fault
	}
	if !fr.Flags.Has(wire.EndHeaders) {
		i := &s.input
		i.block = append(make([]byte, 0, 2*len(block)+1), block...)
		i.blockHead, i.blockFault, i.fragments = fr.FrameHeader, fault, 0
		return nil
	}
	return s.onBlock(fr.FrameHeader, block, fault)
}

// onContinuation continues a head block (RFC 9113, 6.10).
func (s *Session) onContinuation(fr frame) *wire.Error {
	i := &s.input
	i.fragments++
	if len(i.block)+len(fr.content) > s.config.Exchanges.Limits.Bytes || i.fragments > maxFragments {
		s.reportPartial(http.StatusRequestHeaderFieldsTooLarge)
		return wire.ConnError(wire.EnhanceYourCalm, "head block too large")
	}
	i.block = append(i.block, fr.content...)
	if !fr.Flags.Has(wire.EndHeaders) {
		if len(fr.content) < fullFragment {
			return s.debit(1)
		}
		return nil
	}
	block, first := i.block, i.blockHead
	i.block, i.blockHead = nil, wire.FrameHeader{}
	return s.onBlock(first, block, i.blockFault)
}

// reportPartial reports the request whose head block is incomplete, as far as it can be decoded.
// The session is about to end.
func (s *Session) reportPartial(status int) {
	i := &s.input
	if i.block == nil || s.config.Exchanges.OnRefused == nil {
		return
	}
	b := s.config.headBlock()
	defer s.config.keepHeadBlock(b)
	_ = s.decoder.Decode(i.block, s.config.Exchanges.Limits, b) // the block ends anywhere
	i.block = nil
	s.report(b, status, 0)
}

// onBlock decodes a complete head block: that of a request, or a trailer section. fault is the
// error of its HEADERS frame, if that concerns the stream only.
func (s *Session) onBlock(h wire.FrameHeader, block []byte, fault *wire.Error) *wire.Error {
	b := s.config.headBlock()
	defer s.config.keepHeadBlock(b)
	if err := s.decoder.Decode(block, s.config.Exchanges.Limits, b); err != nil {
		s.report(b, http.StatusBadRequest, 0)
		return err
	}
	if err := s.debitAmplified(len(b.Text), len(block)); err != nil {
		return err
	}
	s.mu.Lock()
	st, isNew, isServed := s.streams[h.StreamID], h.StreamID > s.highestID, s.phase < phaseDraining
	if s.highestID = max(s.highestID, h.StreamID); isNew && isServed {
		s.lastID = h.StreamID
	}
	isLate := h.StreamID > s.lastID
	if st == nil && !isNew && s.lateTrailers > 0 {
		isLate = true
		s.lateTrailers--
	}
	s.mu.Unlock()
	switch {
	case st != nil:
		return s.onTrailers(st, h, b)
	case isLate: // the client has not yet received RST_STREAM or the last GOAWAY
		return s.debit(1)
	case !isNew:
		return wire.ConnError(wire.StreamClosed, "HEADERS on a closed stream")
	case fault != nil:
		s.report(b, http.StatusBadRequest, 0)
		return fault
	}
	return s.onRequest(h, b, len(block))
}

// debitAmplified takes units for a decoded head of size bytes whose block refers to the same fields
// again and again.
func (s *Session) debitAmplified(size, block int) *wire.Error {
	const mostCompression = 2 // of Huffman's code, at most 8:5
	excess := size - mostCompression*block - int(s.config.tableSize) - unitAmplified
	if excess <= 0 {
		return nil
	}
	return s.debit(1 + excess/unitAmplified)
}

// unitAmplified is how many bytes cost a unit if they were not sent, but repeated from the tables.
// An honest client refers to each field of the dynamic table once in a head.
const unitAmplified = 4 << 10

// onRequest opens a stream for a request, whose head was encoded in blockBytes.
func (s *Session) onRequest(h wire.FrameHeader, b *wire.HeaderBlock, blockBytes int) *wire.Error {
	s.mu.Lock()
	isFull := len(s.streams) >= int(s.config.maxStreams)
	isBusy := s.running >= int(s.config.maxStreams)
	// An indexed field of a few bits may stand for thousands of bytes, in each of the heads.
	isLarge := s.headBytes+len(b.Text) > 2*s.config.Exchanges.Limits.Bytes
	s.mu.Unlock()
	fault := b.CheckRequest()
	switch {
	case isFull || isBusy || isLarge: // the handlers of reset streams still run
		return wire.StreamError(h.StreamID, wire.RefusedStream, "too many streams")
	case fault != "":
		return s.rejectRequest(h, b, fault)
	case b.Protocol.End > b.Protocol.Start && !s.config.ExtendedConnect:
		return s.rejectRequest(h, b, "extended CONNECT was not offered")
	case b.IsTooLarge:
		s.refuse(h, b, http.StatusRequestHeaderFieldsTooLarge, "head too large")
		return s.debit(1)
	case h.Flags.Has(wire.EndStream) && b.Length > 0:
		return s.rejectRequest(h, b, "body shorter than Content-Length")
	}
	st, err := s.newStream(h, b)
	if err != nil {
		status, why := exchange.RefusalOf(err)
		s.refuse(h, b, status, why)
		return s.debit(1)
	}
	st.blockBytes = uint32(blockBytes)
	s.mu.Lock()
	st.sendWindow = s.initialWindow
	s.addStreamLocked(st)
	s.running++
	s.headBytes += int(st.headBytes)
	s.ownDeadline = s.ownDeadline && s.running > 1
	s.mu.Unlock()
	s.ready = append(s.ready, st)
	return nil
}

func (s *Session) addStreamLocked(st *Stream) {
	s.streams[st.id] = st
	s.mostStreams = max(s.mostStreams, len(s.streams))
}

// rejectRequest responds to a malformed request. If it is complete, its stream is also reset (RFC
// 9113, 8.1.1). A reset alone would make net/http's client send the request again without end.
func (s *Session) rejectRequest(h wire.FrameHeader, b *wire.HeaderBlock, what string) *wire.Error {
	s.refuse(h, b, http.StatusBadRequest, what)
	if !h.Flags.Has(wire.EndStream) {
		return s.debit(resetCost)
	}
	return wire.StreamError(h.StreamID, wire.ProtocolError, what)
}

// protocolField is where handlers find the protocol of an extended CONNECT request (RFC 8441, 4),
// as with net/http. No field of a client can have this name.
const protocolField = ":protocol"

// newStream makes a stream and its exchange of a complete head.
func (s *Session) newStream(h wire.FrameHeader, b *wire.HeaderBlock) (*Stream, error) {
	text := http1.TextOf(b.Text)
	st := &Stream{session: s, id: h.StreamID, urgency: wire.DefaultUrgency, declared: b.Length,
		headBytes: uint32(len(b.Text)), window: wire.NewReceiveWindow(s.config.streamWindow)}
	st.inEnded = h.Flags.Has(wire.EndStream)
	x := &exchange.Exchange{}
	st.exchange = x
	x.Prepare(st, s.template)
	r := &x.Request
	r.Method, r.Host, r.RequestURI = text.Of(b.Method), text.Of(b.Host()), text.Of(b.Path)
	protocol := text.Of(b.Protocol)
	if r.Method == http.MethodConnect && protocol == "" {
		r.RequestURI = r.Host
	}
	if err := x.SetURL(); err != nil {
		return nil, err
	}
	x.SetHeader(b.Fields, len(b.Fields), &text, textproto.CanonicalMIMEHeaderKey)
	if protocol != "" {
		r.Header[protocolField] = []string{protocol}
	}
	st.incremental = s.config.IgnoresPriority
	if priority := r.Header["Priority"]; len(priority) > 0 {
		st.prioritizeLocked([]byte(priority[0])) // nobody else knows the stream yet
	}
	expects := http1.HasToken(r.Header["Expect"], "100-continue")
	if expects {
		delete(r.Header, "Expect") // as net/http
	}
	var err error
	r.Trailer, err = http1.TakeTrailer(r.Header, s.config.Exchanges.Limits.Fields, true,
		textproto.CanonicalMIMEHeaderKey)
	if st.inEnded {
		x.Body.Init(x, exchange.NoBody, 0, false)
	} else {
		x.Body.Init(x, exchange.ByStream, st.declared, expects)
	}
	return st, err
}

// onTrailers handles a head block of an open stream, which is a trailer section.
func (s *Session) onTrailers(st *Stream, h wire.FrameHeader, b *wire.HeaderBlock) *wire.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case st.inEnded:
		return wire.StreamError(st.id, wire.StreamClosed, "HEADERS after the end of the body")
	case !h.Flags.Has(wire.EndStream):
		return wire.StreamError(st.id, wire.ProtocolError, "trailer section does not end the stream")
	case b.CheckTrailers() != "":
		return wire.StreamError(st.id, wire.ProtocolError, "malformed trailer section")
	case b.IsTooLarge, len(b.Text) > exchange.MaxTrailerBytes:
		return wire.StreamError(st.id, wire.ProtocolError, "trailer section too large")
	}
	st.trailer = b.Trailer(textproto.CanonicalMIMEHeaderKey)
	s.endInputLocked(st)
	return nil
}

// refuse responds to a request that no handler sees, and reports it. why is never text of the
// client's.
func (s *Session) refuse(h wire.FrameHeader, b *wire.HeaderBlock, status int, why string) {
	text := exchange.RefusalText(status, why)
	s.mu.Lock()
	out := s.output.out
	at := len(out)
	out = wire.AppendHeaders(out, h.StreamID)
	out = wire.AppendStatus(out, status)
	out = wire.AppendField(out, "content-type", "text/plain; charset=utf-8")
	out = wire.AppendField(out, "date", s.config.Exchanges.Server.Date.Text())
	sent := len(text)
	if string(b.Method.In(b.Text)) == http.MethodHead || s.output.unacked > 0 ||
		min(s.initialWindow, s.sendWindow) < int32(sent) {
		sent = 0
		wire.AddFrameFlags(out[at:], wire.EndStream)
	} else {
		out = wire.AppendLength(out, int64(sent))
	}
	out = wire.EndBlock(out, at, wire.MinMaxFrameSize)
	if sent > 0 {
		s.sendWindow -= int32(sent)
		out = wire.AppendData(out, h.StreamID, []byte(text), true)
	}
	s.output.reply(out)
	if !h.Flags.Has(wire.EndStream) && s.phase < phaseEnded {
		st := &Stream{session: s, id: h.StreamID, declared: -1, window: wire.NewReceiveWindow(s.config.streamWindow)}
		s.addStreamLocked(st)
		s.halfCloseLocked(st)
	}
	s.mu.Unlock()
	s.report(b, status, int64(sent))
}

// Next returns a stream whose handler must run, or nil. The caller holds the turn.
func (s *Session) Next() *Stream {
	for s.nextReady < len(s.ready) {
		st := s.ready[s.nextReady]
		s.ready[s.nextReady] = nil
		s.nextReady++
		s.mu.Lock()
		isClosed := st.isClosed
		s.mu.Unlock()
		if !isClosed {
			return st
		}
		st.finish(false) // it was reset before its handler began
	}
	if s.ready, s.nextReady = s.ready[:0], 0; cap(s.ready) > keptStreams {
		s.ready = nil
	}
	return nil
}

// maxReports is how many rejected requests of a session are being reported. More are not reported:
// the hook hangs, and the client must not collect goroutines.
const maxReports = 64

// report calls the server's hook with a request that no handler sees, as far as it was decoded. The
// hook may block in spite of its doc, so it has a goroutine: the turn must not wait for a log.
func (s *Session) report(b *wire.HeaderBlock, status int, sent int64) {
	if s.config.Exchanges.OnRefused == nil {
		return
	}
	if s.reports.Add(1) > maxReports {
		s.reports.Add(-1)
		return
	}
	r, line := s.describe(b)
	ctx, local := context.WithoutCancel(s.conn.Context()), s.conn.LocalAddr()
	go func() {
		defer s.reports.Add(-1)
		s.config.Exchanges.CallRefused(ctx, r, local, line, status, sent)
	}()
}

// describe returns what is known of a request, and its request line as HTTP/1 has it. The line is
// empty if the method or the path is missing.
func (s *Session) describe(b *wire.HeaderBlock) (r *http.Request, line []byte) {
	text := http1.TextOf(b.Text)
	r = new(*s.template)
	r.Method, r.RequestURI, r.Host = text.Of(b.Method), text.Of(b.Path), text.Of(b.Host())
	r.Header, r.URL, r.Body = b.Header(textproto.CanonicalMIMEHeaderKey), new(url.URL), http.NoBody
	delete(r.Header, "Host")
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		r.URL = u
	}
	if r.Method != "" && r.RequestURI != "" {
		line = []byte(r.Method + " " + r.RequestURI + " " + r.Proto)
	}
	return r, line
}
