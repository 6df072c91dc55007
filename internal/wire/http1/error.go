package http1

import "strconv"

// Kind classifies faults by the status of the response.
type Kind uint8

const (
	// Malformed is a message that is not HTTP/1 (400).
	Malformed Kind = iota + 1
	// TooLarge is a head or trailer section over its limit (431).
	TooLarge
	// BadVersion is a well-formed start line of another HTTP major version (505).
	BadVersion
	// UnknownCoding is a transfer coding other than chunked (501).
	UnknownCoding
)

// Error is a fault in a message. It never reports failed input or output.
type Error struct {
	Kind   Kind
	What   string // the fault, lower case, without bytes of the message
	Offset int64  // of the fault, in bytes from the start of the head or chunked body
}

func (e *Error) Error() string {
	return "http1: " + e.What + " at byte " + strconv.FormatInt(e.Offset, 10)
}

// Status returns the status of the response to a request with this fault.
func (e *Error) Status() int {
	return [...]int{Malformed: 400, TooLarge: 431, BadVersion: 505, UnknownCoding: 501}[e.Kind]
}

func fault(kind Kind, offset int, what string) error {
	return &Error{Kind: kind, Offset: int64(offset), What: what}
}

func malformed(offset int, what string) error { return fault(Malformed, offset, what) }
