package http2

import "encoding/binary"

// Preface is what a client sends first (RFC 9113, 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// FrameHeaderSize is the size of a frame's header.
const FrameHeaderSize = 9

// Limits of the protocol (RFC 9113, 4.2 and 6.9.1).
const (
	MinMaxFrameSize     = 1 << 14 // the initial value of SETTINGS_MAX_FRAME_SIZE
	MaxFrameSize        = 1<<24 - 1
	InitialWindow       = 1<<16 - 1
	MaxWindow           = 1<<31 - 1
	MaxStreamID         = 1<<31 - 1
	DefaultTableSize    = 4096 // the initial value of SETTINGS_HEADER_TABLE_SIZE
	settingSize         = 6
	maxSettings         = 100 // of one frame, as in net/http
	maxPriorityUpdate   = 1 << 10
	priorityFieldsSize  = 5
	pingSize            = 8
	goAwaySize          = 8
	windowUpdateSize    = 4
	resetSize           = 4
	priorityUpdateStart = 4
)

// FrameType is the type of a frame (RFC 9113, 6; RFC 9218, 7.1).
type FrameType uint8

// The types. Frames of other types are ignored.
const (
	Data           FrameType = 0x0
	Headers        FrameType = 0x1
	Priority       FrameType = 0x2
	RSTStream      FrameType = 0x3
	Settings       FrameType = 0x4
	PushPromise    FrameType = 0x5
	Ping           FrameType = 0x6
	GoAway         FrameType = 0x7
	WindowUpdate   FrameType = 0x8
	Continuation   FrameType = 0x9
	PriorityUpdate FrameType = 0x10
)

// Flags are the flags of a frame. Their meaning depends on its type.
type Flags uint8

// The flags.
const (
	EndStream   Flags = 0x1  // DATA, HEADERS
	Ack         Flags = 0x1  // SETTINGS, PING
	EndHeaders  Flags = 0x4  // HEADERS, CONTINUATION
	Padded      Flags = 0x8  // DATA, HEADERS
	HasPriority Flags = 0x20 // HEADERS
)

// Has reports whether a flag is set.
func (f Flags) Has(flag Flags) bool { return f&flag != 0 }

// FrameHeader is the header of a frame (RFC 9113, 4.1).
type FrameHeader struct {
	Length   uint32 // of the payload
	Type     FrameType
	Flags    Flags
	StreamID uint32
}

// ParseFrameHeader returns the header that in begins with. ok is false if it is incomplete.
func ParseFrameHeader(in []byte) (h FrameHeader, ok bool) {
	if len(in) < FrameHeaderSize {
		return h, false
	}
	return FrameHeader{
		Length: uint32(in[0])<<16 | uint32(in[1])<<8 | uint32(in[2]), Type: FrameType(in[3]), Flags: Flags(in[4]),
		StreamID: binary.BigEndian.Uint32(in[5:]) & MaxStreamID,
	}, true
}

// streamRule is what a type requires of a frame's stream.
type streamRule uint8

const (
	anyStream streamRule = iota
	onStream             // not 0
	onConnection
)

// frameRule is what a type requires of a frame's header.
type frameRule struct {
	stream streamRule
	least  uint32 // of the payload
	most   uint32 // of the payload; 0 is the maximum frame size
}

// frameRules is never modified.
var frameRules = [...]frameRule{
	Data:         {stream: onStream},
	Headers:      {stream: onStream},
	Priority:     {stream: onStream},
	RSTStream:    {stream: onStream, least: resetSize, most: resetSize},
	Settings:     {stream: onConnection},
	PushPromise:  {stream: onStream},
	Ping:         {stream: onConnection, least: pingSize, most: pingSize},
	GoAway:       {stream: onConnection, least: goAwaySize},
	WindowUpdate: {least: windowUpdateSize, most: windowUpdateSize},
	Continuation: {stream: onStream},

	PriorityUpdate: {stream: onConnection, least: priorityUpdateStart},
}

// Check returns the error of a frame whose header contradicts its type. It needs no payload.
// maxFrameSize is the receiver's SETTINGS_MAX_FRAME_SIZE.
func (h FrameHeader) Check(maxFrameSize uint32) *Error {
	if h.Length > maxFrameSize {
		return ConnError(FrameSizeError, "frame larger than SETTINGS_MAX_FRAME_SIZE")
	}
	var rule frameRule
	if int(h.Type) < len(frameRules) {
		rule = frameRules[h.Type]
	}
	switch {
	case rule.stream == onStream && h.StreamID == 0:
		return ConnError(ProtocolError, "frame of a stream on stream 0")
	case rule.stream == onConnection && h.StreamID != 0:
		return ConnError(ProtocolError, "frame of the connection on a stream")
	}
	switch {
	case h.Type == Priority && h.Length != priorityFieldsSize:
		return StreamError(h.StreamID, FrameSizeError, "PRIORITY frame of a wrong size")
	case h.Length < rule.least || rule.most > 0 && h.Length > rule.most:
		return ConnError(FrameSizeError, "frame of a wrong size")
	case h.Type == Settings && h.Flags.Has(Ack) && h.Length != 0:
		return ConnError(FrameSizeError, "acknowledgment of SETTINGS with a payload")
	case h.Type == Settings && h.Length%settingSize != 0:
		return ConnError(FrameSizeError, "SETTINGS frame of a wrong size")
	case h.Type == Settings && h.Length > maxSettings*settingSize:
		return ConnError(EnhanceYourCalm, "too many settings")
	case h.Type == PriorityUpdate && h.Length > maxPriorityUpdate:
		return ConnError(EnhanceYourCalm, "PRIORITY_UPDATE too large")
	}
	return nil
}

// CheckOrder returns the error of a frame that must not follow those before it. hasSettings reports
// whether the peer's SETTINGS have arrived. block is the stream whose field block CONTINUATION must
// continue, 0 for none. The peer is a client, or a server to which push is disabled.
func (h FrameHeader) CheckOrder(hasSettings bool, block uint32) *Error {
	switch {
	case !hasSettings && (h.Type != Settings || h.Flags.Has(Ack)):
		return ConnError(ProtocolError, "first frame is not SETTINGS")
	case block != 0 && (h.Type != Continuation || h.StreamID != block):
		return ConnError(ProtocolError, "field block without CONTINUATION")
	case block == 0 && h.Type == Continuation:
		return ConnError(ProtocolError, "CONTINUATION without HEADERS")
	case h.Type == PushPromise:
		return ConnError(ProtocolError, "PUSH_PROMISE although push is disabled")
	}
	return nil
}

// AppendFrameHeader appends the header of a frame, whose payload follows.
func AppendFrameHeader(out []byte, h FrameHeader) []byte {
	return append(out, byte(h.Length>>16), byte(h.Length>>8), byte(h.Length), byte(h.Type), byte(h.Flags),
		byte(h.StreamID>>24), byte(h.StreamID>>16), byte(h.StreamID>>8), byte(h.StreamID))
}

// SetFrameLength sets the length in the frame header that frame begins with.
func SetFrameLength(frame []byte, n int) {
	frame[0], frame[1], frame[2] = byte(n>>16), byte(n>>8), byte(n)
}

// AddFrameFlags adds flags to the frame header that frame begins with.
func AddFrameFlags(frame []byte, f Flags) { frame[4] |= byte(f) }
