package fetch

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// paced returns the body of a response, without a server, that is read with a rate.
func paced(ctx context.Context, text string, rate int64) *responseBody {
	r := &Request{upstream: &Upstream{Pending: new(Pending), Expired: ctx, ReadTimeout: time.Minute}}
	a := &attempt{parent: ctx, request: r}
	a.timeout.Store(int64(time.Minute))
	return &responseBody{ReadCloser: io.NopCloser(strings.NewReader(text)), pace: NewPace(rate), attempt: a}
}

// A paced body is read with its rate: up to the rate in each second that has begun.
func TestPaceLimitsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, size = 1000, 3500
		b := paced(t.Context(), strings.Repeat("x", size), rate)
		defer b.attempt.stop()
		began, read := time.Now(), 0
		for read < size {
			n := testkit.Value(b.Read(make([]byte, 700)))(t)
			read += n
			if most := rate * (int(time.Since(began)/time.Second) + 1); read > most {
				t.Fatalf("%d bytes after %s", read, time.Since(began))
			}
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("took %s", got)
		}
	})
}

// Waiting ends with the client's request, and with the body.
func TestPaceEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cancels := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			b := paced(ctx, "", 1)
			b.read = 10
			go func() {
				if cancels {
					cancel()
				} else {
					b.attempt.stop()
				}
			}()
			began := time.Now()
			if _, err := b.waitForRate(); !errors.Is(err, context.Canceled) || time.Since(began) > time.Second {
				t.Errorf("%v after %s", err, time.Since(began))
			}
			cancel()
			b.attempt.stop()
		}
	})
}

// A rate beyond any connection's waits for nothing.
func TestPaceOfExtremeRates(t *testing.T) {
	b := paced(t.Context(), "", 1<<62)
	b.read = 1 << 30
	if n, err := b.waitForRate(); n < 1<<30 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
