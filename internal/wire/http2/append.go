package http2

import "encoding/binary"

// AppendSettings appends a SETTINGS frame.
func AppendSettings(out []byte, all ...Setting) []byte {
	out = AppendFrameHeader(out, FrameHeader{Length: uint32(settingSize * len(all)), Type: Settings})
	for _, s := range all {
		out = binary.BigEndian.AppendUint16(out, uint16(s.ID))
		out = binary.BigEndian.AppendUint32(out, s.Value)
	}
	return out
}

// AppendSettingsAck appends the acknowledgment of a SETTINGS frame.
func AppendSettingsAck(out []byte) []byte {
	return AppendFrameHeader(out, FrameHeader{Type: Settings, Flags: Ack})
}

// AppendPing appends a PING frame. flags is 0 or Ack.
func AppendPing(out []byte, flags Flags, data [8]byte) []byte {
	out = AppendFrameHeader(out, FrameHeader{Length: pingSize, Type: Ping, Flags: flags})
	return append(out, data[:]...)
}

// AppendGoAway appends a GOAWAY frame. last is the last stream that was or may be processed.
func AppendGoAway(out []byte, last uint32, code ErrorCode) []byte {
	out = AppendFrameHeader(out, FrameHeader{Length: goAwaySize, Type: GoAway})
	out = binary.BigEndian.AppendUint32(out, last)
	return binary.BigEndian.AppendUint32(out, uint32(code))
}

// AppendRSTStream appends an RST_STREAM frame.
func AppendRSTStream(out []byte, id uint32, code ErrorCode) []byte {
	out = AppendFrameHeader(out, FrameHeader{Length: resetSize, Type: RSTStream, StreamID: id})
	return binary.BigEndian.AppendUint32(out, uint32(code))
}

// AppendWindowUpdate appends a WINDOW_UPDATE frame for a stream, or for the connection if id is 0.
func AppendWindowUpdate(out []byte, id, increment uint32) []byte {
	out = AppendFrameHeader(out, FrameHeader{Length: windowUpdateSize, Type: WindowUpdate, StreamID: id})
	return binary.BigEndian.AppendUint32(out, increment)
}

// AppendHeaders appends the header of a HEADERS frame and the start of its field block. EndBlock
// completes them. The block sets the size of the dynamic table to 0: a peer that reduces
// SETTINGS_HEADER_TABLE_SIZE rejects the next block otherwise (RFC 7541, 4.2). Each block does so,
// at the cost of a byte, because streams send their blocks in any order.
func AppendHeaders(out []byte, id uint32) []byte {
	return append(AppendFrameHeader(out, FrameHeader{Type: Headers, StreamID: id}), updateBit)
}

// EndBlock completes a field block of one stream: out[start:] is the header of a HEADERS frame
// without length and EndHeaders, and the block. A block larger than maxFrameSize is split into
// CONTINUATION frames.
func EndBlock(out []byte, start int, maxFrameSize int) []byte {
	n := len(out) - start - FrameHeaderSize
	if n <= maxFrameSize {
		SetFrameLength(out[start:], n)
		AddFrameFlags(out[start:], EndHeaders)
		return out
	}
	first, _ := ParseFrameHeader(out[start:])
	rest := append([]byte(nil), out[start+FrameHeaderSize+maxFrameSize:]...)
	SetFrameLength(out[start:], maxFrameSize)
	out = out[:start+FrameHeaderSize+maxFrameSize]
	for len(rest) > 0 {
		h := FrameHeader{Type: Continuation, StreamID: first.StreamID}
		n := min(len(rest), maxFrameSize)
		if h.Length = uint32(n); n == len(rest) {
			h.Flags = EndHeaders
		}
		out = append(AppendFrameHeader(out, h), rest[:n]...)
		rest = rest[n:]
	}
	return out
}

// AppendData appends data as DATA frames. If isLast is set, the last one ends the stream.
func AppendData(out []byte, id uint32, data []byte, isLast bool) []byte {
	for len(data) > 0 || isLast {
		n := min(len(data), MinMaxFrameSize)
		h := FrameHeader{Length: uint32(n), Type: Data, StreamID: id}
		if isLast && n == len(data) {
			h.Flags, isLast = EndStream, false
		}
		out = append(AppendFrameHeader(out, h), data[:n]...)
		data = data[n:]
	}
	return out
}

// SetStreamID sets the stream in the frame header that frame begins with.
func SetStreamID(frame []byte, id uint32) { binary.BigEndian.PutUint32(frame[5:], id) }
