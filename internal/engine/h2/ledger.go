package h2

import (
	"time"

	wire "github.com/tarehq/tare/internal/wire/http2"
)

// ledger counts the work that a client causes without paying for it: frames that cost the server
// more than the client, and that no honest client sends in numbers. Each debit takes one unit. Time
// and responses that the client receives add units. If none is left, the connection ends with
// ENHANCE_YOUR_CALM.
//
// One ledger for all kinds of floods cannot be evaded by mixing them. Two kinds of frames are paid
// for by content first:
//
//   - DATA by its own content. A frame of five bytes or more, the smallest message of gRPC, costs
//     nothing.
//   - WINDOW_UPDATE by the DATA that the client has received. A client may send one for each read.
type ledger struct {
	units   int
	updated time.Time
	excess  int   // bytes of DATA frames' overhead that were not paid for
	sent    int64 // bytes of DATA that were sent and have paid for no WINDOW_UPDATE
}

const (
	// fullLedger is how many units a ledger holds at most. A browser that closes pages, or a page
	// that cancels what it has requested, resets a thousand streams within a second, for
	// resetCost each. nghttp2 permits as many.
	fullLedger = 2500
	// ledgerRate is how many units a second adds.
	ledgerRate = 100

	// overheadPerByte is how many bytes of frame header and padding a byte of content pays for, as
	// in net/http's limit of chunked bodies.
	overheadPerByte = 2
	// unitExcess is how much overhead in excess of that costs a unit: 73 frames of one byte take
	// the server about as long as a request.
	unitExcess = 512
	// updatePrice is how many bytes of DATA pay for a WINDOW_UPDATE.
	updatePrice = 256
)

// debit takes n units. It reports whether there were enough.
func (l *ledger) debit(n int) bool {
	if l.units -= n; l.units >= 0 {
		return true
	}
	now := time.Now() // the clock is read only when the ledger is empty
	if earned := int(min(now.Sub(l.updated), time.Minute) * ledgerRate / time.Second); earned > 0 {
		l.updated = now
		l.units = min(l.units+earned, fullLedger)
	}
	return l.units >= 0
}

// debitData takes units for a DATA frame with much padding or little content. It reports whether
// there were enough.
func (l *ledger) debitData(content, padding int) bool {
	l.excess = max(0, l.excess+wire.FrameHeaderSize+padding-overheadPerByte*content)
	if l.excess < unitExcess {
		return true
	}
	n := l.excess / unitExcess
	l.excess %= unitExcess
	return l.debit(n)
}

// debitUpdate takes a unit for a WINDOW_UPDATE that no DATA has paid for. It reports whether there
// were enough.
func (l *ledger) debitUpdate() bool {
	if l.sent >= updatePrice {
		l.sent -= updatePrice
		return true
	}
	return l.debit(1)
}

// credit adds n units for responses.
func (l *ledger) credit(n int) { l.units = min(l.units+n, fullLedger) }

// creditData pays for the client's replies to a piece of DATA with n of the bytes that a stream
// wants to send. A client that opens its windows by little makes the server send many pieces, and
// gains no units by them. creditData then returns false.
func (l *ledger) creditData(n, wants int) bool {
	l.sent += int64(n)
	if n < wants && n < updatePrice {
		return false
	}
	l.credit(grantCredit)
	return true
}

// debitSmall takes units for n such small pieces, which a frame of the client has caused. Each
// wakes a handler. The frame itself costs a unit, so that the first piece is paid for: more than
// one follow from a frame that opens the windows of many streams.
func (l *ledger) debitSmall(n int) {
	if n > 1 {
		l.units -= n - 1
	}
}

// grantCredit is how many units a piece of DATA adds. A client may respond to it with
// WINDOW_UPDATEs and a PING, which then serve a purpose.
const grantCredit = 4
