package dns

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// A lookup that waits for others ends with its time, too.
func TestTimeOfALookupIncludesWaiting(t *testing.T) {
	r := testkit.Value(New(Config{Servers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}, Timeout: time.Millisecond}))(t)
	defer r.Close()
	for range maxLookups {
		r.slots <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, err := r.Lookup(ctx, "a.example"); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("%v, and the caller's context %v", err, ctx.Err())
	}
}
