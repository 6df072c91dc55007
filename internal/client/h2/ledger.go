package h2

import (
	"time"

	wire "github.com/tarehq/tare/internal/wire/http2"
)

// ledger counts frames that cost the client more than they bring, and that no honest server sends
// in numbers. Each takes a unit. Time, requests and content add units. If none is left, the
// connection ends with ENHANCE_YOUR_CALM. One ledger for all kinds of floods cannot be evaded by
// mixing them.
type ledger struct {
	units   int
	updated time.Time
	excess  int   // bytes of DATA frames' overhead that their content has not paid for
	sent    int64 // bytes of DATA that were sent and have paid for no WINDOW_UPDATE
}

const (
	fullLedger = 2500 // units that a ledger holds at most
	ledgerRate = 100  // units that a second adds
	// requestCredit and dataCredit are the units that a request, and a frame with content in either
	// direction, add. A server may reply to each by WINDOW_UPDATE and PING.
	requestCredit, dataCredit = 8, 4
	// overheadPerByte is how many bytes of frame header and padding a byte of content pays for.
	overheadPerByte = 2
	// unitExcess is how much overhead in excess of that costs a unit.
	unitExcess = 512
	// updatePrice is how many sent bytes of content pay for a WINDOW_UPDATE.
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

func (l *ledger) credit(n int) { l.units = min(l.units+n, fullLedger) }

// debitData takes units for a DATA frame with much padding or little content, and adds some for its
// content. It reports whether there were enough.
func (l *ledger) debitData(size, padding int) bool {
	if l.excess = max(0, l.excess+wire.FrameHeaderSize+padding-overheadPerByte*size); l.excess < unitExcess {
		if size > 0 {
			l.credit(dataCredit)
		}
		return size > 0 || l.debit(1)
	}
	n := l.excess / unitExcess
	l.excess %= unitExcess
	return l.debit(n)
}

// debitUpdate takes a unit for a WINDOW_UPDATE that no sent content has paid for. It reports
// whether there were enough.
func (l *ledger) debitUpdate() bool {
	if l.sent >= updatePrice {
		l.sent -= updatePrice
		return true
	}
	return l.debit(1)
}

// inWindow is a window that the peer may use.
type inWindow struct {
	size   int32 // its full size
	avail  int32 // what the peer may send
	unsent int32 // what was read, but not yet returned to the peer
}

// maxRefresh is how many read bytes are returned to the peer at once, or less if the window is
// small. Each return may cost a write.
const maxRefresh = 64 << 10

func newInWindow(size int32) inWindow { return inWindow{size: size, avail: size} }

// take reports whether the peer was allowed to send n bytes.
func (w *inWindow) take(n int) bool {
	if int64(n) > int64(w.avail) {
		return false
	}
	w.avail -= int32(n)
	return true
}

// add returns by how much to increase the peer's window after n bytes were read; 0 for later.
func (w *inWindow) add(n int) (increment uint32) {
	w.unsent += int32(n)
	if w.unsent == 0 || w.unsent < min(maxRefresh, w.size/4) && w.unsent < w.avail {
		return 0
	}
	increment = uint32(w.unsent)
	w.avail += w.unsent
	w.unsent = 0
	return increment
}

// grow adds to a window that the peer has set. It reports false if the window becomes too large.
func grow(window *int32, by int64) bool {
	n := int64(*window) + by
	if n > wire.MaxWindow {
		return false
	}
	*window = int32(n)
	return true
}
