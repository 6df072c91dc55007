package http2

import (
	"bytes"
	"encoding/binary"
)

// The functions below interpret the payload of a frame that FrameHeader.Check has accepted. Their
// results alias the payload.

// PaddingOf returns how many bytes of content and of padding a frame has (RFC 9113, 6.1). Of a
// padded frame's payload, the first byte must have arrived.
func PaddingOf(h FrameHeader, payload []byte) (content, padding int, err *Error) {
	switch {
	case !h.Flags.Has(Padded):
		return int(h.Length), 0, nil
	case h.Length == 0:
		return 0, 0, ConnError(FrameSizeError, "padded frame without the length of its padding")
	case uint32(payload[0]) >= h.Length:
		return 0, 0, ConnError(ProtocolError, "padding longer than the frame")
	}
	padding = int(payload[0])
	return int(h.Length) - 1 - padding, padding, nil
}

// Unpad returns the payload without its padding, such as the data of a DATA frame. Flow control
// counts the whole payload.
func Unpad(h FrameHeader, payload []byte) ([]byte, *Error) {
	content, padding, err := PaddingOf(h, payload)
	if err != nil {
		return nil, err
	}
	payload = payload[:len(payload)-padding]
	return payload[len(payload)-content:], nil
}

// BlockOf returns the fragment of the field block in a HEADERS frame. Priorities of RFC 7540 are
// ignored, except that a stream must not depend on itself. With that error, which concerns only the
// stream, BlockOf still returns the fragment: the block must be decoded.
func BlockOf(h FrameHeader, payload []byte) ([]byte, *Error) {
	p, err := Unpad(h, payload)
	if err != nil || !h.Flags.Has(HasPriority) {
		return p, err
	}
	if len(p) < priorityFieldsSize {
		return nil, ConnError(FrameSizeError, "HEADERS frame too small for its priority")
	}
	return p[priorityFieldsSize:], CheckPriority(h, p)
}

// CheckPriority returns the error of a stream that depends on itself (RFC 7540, 5.3.1). payload
// begins with the dependency.
func CheckPriority(h FrameHeader, payload []byte) *Error {
	if binary.BigEndian.Uint32(payload)&MaxStreamID == h.StreamID {
		return StreamError(h.StreamID, ProtocolError, "stream depends on itself")
	}
	return nil
}

// SettingID identifies a setting (RFC 9113, 6.5.2).
type SettingID uint16

// The settings, of RFC 9113, RFC 8441 and RFC 9218.
const (
	HeaderTableSize       SettingID = 0x1
	EnablePush            SettingID = 0x2
	MaxConcurrentStreams  SettingID = 0x3
	InitialWindowSize     SettingID = 0x4
	MaxFrameSizeSetting   SettingID = 0x5
	MaxHeaderListSize     SettingID = 0x6
	EnableConnectProtocol SettingID = 0x8
	NoRFC7540Priorities   SettingID = 0x9
)

// Setting is one setting.
type Setting struct {
	ID    SettingID
	Value uint32
}

// SettingsOf yields the settings of a SETTINGS frame.
func SettingsOf(payload []byte) func(yield func(Setting) bool) {
	return func(yield func(Setting) bool) {
		for rest := payload; len(rest) > 0; rest = rest[settingSize:] {
			if !yield(Setting{SettingID(binary.BigEndian.Uint16(rest)), binary.BigEndian.Uint32(rest[2:])}) {
				return
			}
		}
	}
}

// Check returns the error of a value that RFC 9113 forbids. Unknown settings are ignored.
func (s Setting) Check() *Error {
	switch s.ID {
	case EnablePush, EnableConnectProtocol, NoRFC7540Priorities:
		if s.Value > 1 {
			return ConnError(ProtocolError, "setting neither 0 nor 1")
		}
	case InitialWindowSize:
		if s.Value > MaxWindow {
			return ConnError(FlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE too large")
		}
	case MaxFrameSizeSetting:
		if s.Value < MinMaxFrameSize || s.Value > MaxFrameSize {
			return ConnError(ProtocolError, "SETTINGS_MAX_FRAME_SIZE out of range")
		}
	}
	return nil
}

// WindowUpdateOf returns the increment of a WINDOW_UPDATE frame.
func WindowUpdateOf(h FrameHeader, payload []byte) (increment uint32, err *Error) {
	if increment = binary.BigEndian.Uint32(payload) & MaxWindow; increment == 0 {
		return 0, StreamError(h.StreamID, ProtocolError, "WINDOW_UPDATE by 0")
	}
	return increment, nil
}

// RSTStreamOf returns the code of an RST_STREAM frame.
func RSTStreamOf(payload []byte) ErrorCode { return ErrorCode(binary.BigEndian.Uint32(payload)) }

// GoAwayOf returns the last stream, the code and the debug data of a GOAWAY frame.
func GoAwayOf(payload []byte) (last uint32, code ErrorCode, debug []byte) {
	return binary.BigEndian.Uint32(payload) & MaxStreamID, ErrorCode(binary.BigEndian.Uint32(payload[4:])),
		payload[goAwaySize:]
}

// PriorityUpdateOf returns the stream and the value of a PRIORITY_UPDATE frame (RFC 9218, 7.1).
func PriorityUpdateOf(payload []byte) (id uint32, value []byte, err *Error) {
	if id = binary.BigEndian.Uint32(payload) & MaxStreamID; id == 0 {
		return 0, nil, ConnError(ProtocolError, "PRIORITY_UPDATE for stream 0")
	}
	return id, payload[priorityUpdateStart:], nil
}

// Priority of a response (RFC 9218, 4).
const (
	DefaultUrgency = 3
	leastUrgency   = 7
)

// ParsePriority returns the parameters of a Priority field or of a PRIORITY_UPDATE frame. What is
// absent or malformed has its default.
//
// It is not a complete parser of structured fields (RFC 8941): it reads a dictionary without
// strings, which is all that RFC 9218 defines. Parameters of members are skipped.
func ParsePriority(value []byte) (urgency uint8, incremental bool) {
	urgency = DefaultUrgency
	for len(value) > 0 {
		var member []byte
		member, value, _ = bytes.Cut(value, []byte(","))
		member, _, _ = bytes.Cut(trimSpace(member), []byte(";"))
		key, item, _ := bytes.Cut(member, []byte("="))
		switch {
		case string(key) == "u" && len(item) == 1 && item[0]-'0' <= leastUrgency:
			urgency = item[0] - '0'
		case string(key) == "i" && len(member) == 1:
			incremental = true
		case string(key) == "i" && len(item) == 2 && item[0] == '?':
			incremental = item[1] == '1'
		}
	}
	return urgency, incremental
}

func trimSpace[T string | []byte](b T) T {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
