package h2

import "time"

// ledger counts the work that a client causes without paying for it: frames that cost the server
// more than the client, and that no honest client sends in numbers. Each debit takes one unit. Time
// and responses that the client receives add units. If none is left, the connection ends with
// ENHANCE_YOUR_CALM.
//
// One ledger for all kinds of floods cannot be evaded by mixing them.
type ledger struct {
	units   int
	updated time.Time
}

const (
	// fullLedger is how many units a ledger holds at most. A browser that closes a page resets
	// all its streams at once, which are at most some hundreds.
	fullLedger = 1000
	// ledgerRate is how many units a second adds.
	ledgerRate = 100
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

// credit adds n units for responses.
func (l *ledger) credit(n int) { l.units = min(l.units+n, fullLedger) }
