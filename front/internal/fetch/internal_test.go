package fetch

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// attemptOf starts an attempt of a request with a context, and a timeout of a minute.
func attemptOf(ctx context.Context, n *Pending) *attempt {
	r := &Request{upstream: &Upstream{ReadTimeout: time.Minute, SendTimeout: time.Minute, Pending: n, Expired: context.Background()}}
	return r.startAttempt(ctx, "server")
}

// An attempt ends when its client leaves or its server is silent, from timersAfter on, or at once
// if Done was called.
func TestAttemptEndsWithClientOrTimeout(t *testing.T) {
	const half = time.Minute / 2
	gone := errors.New("gone")
	cases := []struct {
		name     string
		received bool           // Done is called at once
		writes   func(*attempt) // after half a minute
		leave    time.Duration
		want     error
		after    time.Duration
	}{
		{name: "pending", leave: time.Millisecond, want: gone, after: timersAfter},
		{name: "pending, with Done", received: true, leave: time.Millisecond, want: gone, after: time.Millisecond},
		{name: "old", leave: time.Second, want: gone, after: time.Second},
		{name: "silent", leave: time.Hour, want: errTimeout, after: timersAfter + time.Minute},
		{name: "STDERR", writes: func(a *attempt) { a.Stderr(nil) }, leave: time.Hour, want: errTimeout, after: 3 * half},
		{name: "interim response", writes: func(a *attempt) { a.Interim(http.StatusProcessing, nil) },
			leave: time.Hour, want: errTimeout, after: 3 * half},
		{name: "STDERR before the body was sent", writes: func(a *attempt) { a.wrapBody(io.NopCloser(nil)); a.Stderr(nil) },
			leave: time.Hour, want: errTimeout, after: timersAfter + time.Minute},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			ctx, leave := context.WithCancelCause(t.Context())
			a, began := attemptOf(ctx, new(Pending)), time.Now()
			if c.received {
				a.Done()
			}
			time.AfterFunc(c.leave, func() { leave(gone) })
			if c.writes != nil {
				time.AfterFunc(half, func() { c.writes(a) })
			}
			value := make(chan time.Duration, 1)
			a.AfterFunc(func() { value <- time.Since(began) })
			testkit.Equal(t, <-value, c.after, c.name)
			testkit.Is(t, a.Err(), c.want, c.name)
			testkit.Is(t, context.Cause(a), c.want, c.name)
			<-a.Done()
			a.stop()
			testkit.Equal(t, a.wasUnobserved, false, c.name, "is used again, although others have it")
			leave(nil)
		})
	}
}

// A waiter that is removed is not notified, and an attempt without waiters may be reused.
func TestUnobservedAttemptIsReusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(Pending)
		var all []*attempt
		for range 3 {
			a := attemptOf(t.Context(), n)
			for range 2 {
				stop := a.AfterFunc(func() { t.Error("notified") })
				testkit.Equal(t, []bool{stop(), stop()}, []bool{true, false}, "it stops once")
			}
			all = append(all, a)
		}
		for _, i := range []int{1, 2, 0} {
			a := all[i]
			testkit.Equal(t, []bool{a.stop(), a.stop(), a.wasUnobserved}, []bool{true, false, true}, i)
			testkit.Is(t, a.Err(), context.Canceled, i)
			if i == 2 && !slices.Equal([]*attempt{n.first, n.last}, []*attempt{all[0], all[0]}) {
				t.Error("the pending attempts are not in order")
			}
		}
		time.Sleep(2 * timersAfter)
		synctest.Wait()
		testkit.Equal(t, n.first == nil && n.last == nil && !n.timerRuns, true, "no timer without pending attempts")
	})
}

// Servers of gRPC close connections that send PINGs more often than every 5 minutes, and with them
// streams that are silent.
func TestPINGsAreRare(t *testing.T) {
	testkit.Between(t, http2Config(KeepAlive{}, false).Settings.HTTP2.SendPingTimeout, 5*time.Minute+1, time.Hour)
}

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
		testkit.Equal(t, time.Since(began), 3*time.Second, "the time")
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
			testkit.FailsWith(b.waitForRate())(t, context.Canceled)
			testkit.Between(t, time.Since(began), 0, time.Second, "the wait")
			cancel()
			b.attempt.stop()
		}
	})
}

// A rate beyond any connection's waits for nothing.
func TestPaceOfExtremeRates(t *testing.T) {
	b := paced(t.Context(), "", 1<<62)
	b.read = 1 << 30
	testkit.Between(t, testkit.Value(b.waitForRate())(t), 1<<30, math.MaxInt)
}

// unarrived is a body of which nothing has arrived.
type unarrived struct{ io.Reader }

func (unarrived) HasInput() bool { return false }

func keptStream(from io.Reader) *streamedBody {
	b, _ := StreamBody(unarrived{from}, -1, nil) // it reads nothing
	b.stream.keep(true)
	return b.stream
}

func TestReplayRepeatsTheStart(t *testing.T) {
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader,
		"data with EOF": iotest.DataErrReader,
	} {
		text := strings.Repeat("0123456789", 100)
		r := keptStream(wrap(strings.NewReader(text)))
		for _, part := range []int64{0, 1, 500, 1000} {
			body := testkit.Value(r.open())(t)
			got := testkit.Value(io.ReadAll(io.LimitReader(body, part)))(t)
			testkit.Equal(t, string(got), text[:part], name)
		}
		body := testkit.Value(r.open())(t)
		r.keep(false)
		testkit.Equal(t, string(testkit.Value(io.ReadAll(body))(t)), text, name, "after the response")
		testkit.Fails(r.open())(t, ErrBodyConsumed.Error(), name, "after the response")
	}
}

func TestReplayIsBounded(t *testing.T) {
	text := strings.Repeat("0123456789", maxKept)
	r := keptStream(strings.NewReader(text))
	body := testkit.Value(r.open())(t)
	testkit.Equal(t, string(testkit.Value(io.ReadAll(body))(t)), text)
	testkit.Fails(r.open())(t, ErrBodyConsumed.Error(), "opened again")
	testkit.Equal(t, len(r.kept), 0, "bytes that are kept")
}

// What an old reader receives while a new one waits belongs to the new one.
func TestReplayReaderTakesOver(t *testing.T) {
	from, to := io.Pipe()
	r := keptStream(from)
	first := testkit.Value(r.open())(t)
	stopped := make(chan error)
	go func() {
		_, err := io.ReadAll(first)
		stopped <- err
	}()
	testkit.Send(t, to, "one ")
	second := testkit.Value(r.open())(t)
	go func() {
		_, _ = to.Write([]byte("two"))
		to.Close()
	}()
	testkit.Equal(t, string(testkit.Value(io.ReadAll(second))(t)), "one two")
	testkit.Error(t, <-stopped, ErrBodyConsumed.Error(), "the old reader")
}
