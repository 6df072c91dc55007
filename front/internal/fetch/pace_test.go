package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// A paced body is read with its rate: up to the rate in each second that has begun.
func TestPaceLimitsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, size = 1000, 3500
		b := &responseBody{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", size))),
			attempt: newPaced(t), pace: newPace(rate)}
		began, read := time.Now(), 0
		for read < size {
			n := testkit.Value(b.Read(make([]byte, 700)))(t)
			read += n
			if most := rate * (int(time.Since(began)/time.Second) + 1); read > most {
				t.Fatalf("%d bytes after %s", read, time.Since(began))
			}
		}
		testkit.Equal(t, time.Since(began), 3*time.Second, "took")
	})
}

// newPaced returns an attempt for a body, without a server.
func newPaced(t *testing.T) *attempt {
	t.Helper()
	return &attempt{parent: t.Context(), request: &Request{upstream: &Upstream{Pending: new(Pending)}}}
}

// Waiting ends with the client's request, and with the body.
func TestPaceEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cancels := range []bool{false, true} {
			p := newPace(1)
			p.add(10)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if cancels {
					cancel()
				} else {
					p.close()
					p.close()
				}
			}()
			began := time.Now()
			_, err := p.wait(ctx)
			if !errors.Is(err, map[bool]error{false: net.ErrClosed, true: context.Canceled}[cancels]) ||
				time.Since(began) > time.Second {
				t.Errorf("%v after %s", err, time.Since(began))
			}
			cancel()
		}
	})
}

// Without a rate there is no pace, and a rate beyond any connection's waits for nothing.
func TestPaceOfExtremeRates(t *testing.T) {
	if newPace(0) != nil {
		t.Error("a pace without a rate")
	}
	p := newPace(1 << 31)
	p.add(1 << 30)
	if n, err := p.wait(t.Context()); n < 1<<30 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
