package http2

// Ledger counts the work that a peer causes without paying for it: frames that cost the receiver
// more than the sender, and that no honest peer sends in numbers. Each takes a unit. Time, requests
// and content add units. If none is left, the connection ends with EnhanceYourCalm.
//
// One ledger for all kinds of floods cannot be evaded by mixing them. Two kinds of frames are paid
// for by content first:
//
//   - DATA by its own content. A frame of five bytes or more, the smallest message of gRPC, costs
//     nothing.
//   - WINDOW_UPDATE by the DATA that the peer has received. A peer may send one for each read.
type Ledger struct {
	clock   func() int64 // in hundredths of a second
	units   int
	updated int64
	excess  int   // bytes of DATA frames' overhead that were not paid for
	sent    int64 // bytes of DATA that were sent and have paid for no WINDOW_UPDATE
}

const (
	// FullLedger is how many units a ledger holds at most. A browser that closes pages, or a page
	// that cancels what it has requested, resets a thousand streams within a second, each for a
	// unit or two. nghttp2 permits as many.
	FullLedger = 2500

	// overheadPerByte is how many bytes of frame header and padding a byte of content pays for, as
	// in net/http's limit of chunked bodies.
	overheadPerByte = 2
	// unitExcess is how many bytes of unpaid overhead cost a unit: 73 frames of one byte take the
	// receiver about as long as a request.
	unitExcess  = 512
	updatePrice = 256 // how many bytes of DATA pay for a WINDOW_UPDATE
	// contentCredit is how many units a piece of DATA adds. The peer may respond to it with
	// WINDOW_UPDATEs and a PING, which then serve a purpose.
	contentCredit = 4
)

// NewLedger returns a full ledger. The clock returns hundredths of a second, each of which adds a
// unit. It is read only when the ledger is empty.
func NewLedger(clock func() int64) Ledger {
	return Ledger{clock: clock, units: FullLedger, updated: clock()}
}

// Debit takes n units. It reports whether there were enough.
func (l *Ledger) Debit(n int) bool {
	if l.units -= n; l.units >= 0 {
		return true
	}
	if now := l.clock(); now > l.updated {
		l.Credit(int(min(now-l.updated, FullLedger)))
		l.updated = now
	}
	return l.units >= 0
}

// DebitData takes units for a received DATA frame with much padding or little content. It reports
// whether there were enough.
func (l *Ledger) DebitData(content, padding int) bool {
	l.excess = max(0, l.excess+FrameHeaderSize+padding-overheadPerByte*content)
	if l.excess < unitExcess {
		return true
	}
	n := l.excess / unitExcess
	l.excess %= unitExcess
	return l.Debit(n)
}

// DebitUpdate takes a unit for a WINDOW_UPDATE that no DATA has paid for. It reports whether there
// were enough.
func (l *Ledger) DebitUpdate() bool {
	if l.sent >= updatePrice {
		l.sent -= updatePrice
		return true
	}
	return l.Debit(1)
}

// DebitPieces takes units for n small pieces of DATA that a frame of the peer has caused. The frame
// itself costs a unit, so that the first piece is paid for: more than one follow from a frame that
// opens the windows of many streams.
func (l *Ledger) DebitPieces(n int) {
	if n > 1 {
		l.units -= n - 1
	}
}

// Credit adds n units.
func (l *Ledger) Credit(n int) { l.units = min(l.units+n, FullLedger) }

// IsSmallPiece reports whether a piece of DATA has too few of the bytes that a stream wants to
// send. A peer that opens its windows by little receives many small pieces, and gains no units by
// them.
func IsSmallPiece(n, wants int) bool { return n < wants && n < updatePrice }

// CreditData pays for the peer's replies to a piece of DATA that was appended to the output, with n
// of the bytes that a stream wants to send.
func (l *Ledger) CreditData(n, wants int) {
	l.sent += int64(n)
	if !IsSmallPiece(n, wants) {
		l.CreditContent()
	}
}

// CreditContent adds units for a piece of DATA.
func (l *Ledger) CreditContent() { l.Credit(contentCredit) }
