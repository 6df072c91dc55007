package http1

import "strconv"

// Kind says what sort of answer a bad message deserves.
type Kind uint8

const (
	// Malformed is a message that is not HTTP/1 (400).
	Malformed Kind = iota + 1
	// TooLarge is a head or trailer section over its limit (431).
	TooLarge
	// BadVersion is a well-formed start line of another HTTP major version (505).
	BadVersion
	// UnknownCoding is a transfer coding other than chunked, with chunked as the last (501).
	UnknownCoding
)

// Error is a fault in a message. It is never about input or output.
type Error struct {
	Kind   Kind
	What   string // what is wrong, lower case, without foreign bytes
	Offset int64  // where, in bytes since the start of the head or chunked body
}

func (e *Error) Error() string {
	return "http1: " + e.What + " at byte " + strconv.FormatInt(e.Offset, 10)
}

func fault(kind Kind, offset int, what string) error {
	return &Error{Kind: kind, Offset: int64(offset), What: what}
}

func malformed(offset int, what string) error { return fault(Malformed, offset, what) }
