package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// stuck is a body whose Read waits until it is released. Like the body of a server's request, it
// cannot be closed while it is read, unless it is easy.
type stuck struct {
	easy          bool
	reading       sync.Mutex
	read, release chan bool
	closed        chan bool
	once          [3]sync.Once
}

func newStuck(easy bool) *stuck {
	return &stuck{easy: easy, read: make(chan bool), release: make(chan bool), closed: make(chan bool)}
}

func (b *stuck) Read([]byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.once[0].Do(func() { close(b.read) })
	<-b.release
	return 0, io.ErrClosedPipe
}

func (b *stuck) Close() error {
	if b.easy {
		b.once[1].Do(func() { close(b.release) })
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	b.once[2].Do(func() { close(b.closed) })
	return nil
}

// A context that ends at any stage ends the request with its cause. The connection and the body are
// closed.
func TestCancellationReturnsCause(t *testing.T) {
	cause := errors.New("enough")
	for _, stage := range []string{"before", "dialing", "body", "long body", "stuck body", "easy body", "head",
		"half a head", "response", "response to a long body"} {
		t.Run(stage, func(t *testing.T) {
			overAll(t, func(s *site) {
				ctx, cancel := context.WithCancelCause(s.Context())
				defer cancel(nil)
				isHeaded := strings.HasPrefix(stage, "response")
				reached := func() {
					if !isHeaded { // a response that was received and not returned yet is dropped
						cancel(cause)
					}
				}
				if stage == "dialing" {
					s.config.Settings.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
						reached()
						<-ctx.Done()
						return nil, ctx.Err()
					}
				}
				s.serve(func(_ int, c speaker) {
					c.head()
					switch {
					case strings.HasSuffix(stage, "body") && stage != "response to a long body":
					case stage == "half a head":
						_, _ = c.Write([]byte(s.speaks.begins))
					case isHeaded:
						c.begin()
						c.send("half")
					}
					reached()
					<-ctx.Done()
					_, _ = io.Copy(io.Discard, c)
				})
				r := s.request("POST", nil).WithContext(ctx)
				var body *stuck
				switch stage {
				case "stuck body", "easy body":
					body = newStuck(stage == "easy body")
					r.Body, r.ContentLength = body, 100_000
				case "body", "long body", "response to a long body":
					r.Body, r.ContentLength = io.NopCloser(zeros{}), 1<<40
				case "before":
					cancel(cause)
				}
				resp, err := s.the().RoundTrip(r)
				if err == nil && isHeaded {
					_, _ = io.ReadFull(resp.Body, make([]byte, 4))
					cancel(cause)
					_, err = resp.Body.Read(make([]byte, 1))
				}
				if !errors.Is(err, cause) || (resp != nil) != isHeaded {
					s.Errorf("%v, %v", resp, err)
				}
				if body != nil {
					body.once[1].Do(func() { close(body.release) })
					<-body.closed
				}
			})
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The response may begin before the request's body ends. Then both go on.
func TestResponseMayPrecedeEndOfBody(t *testing.T) {
	overAll(t, func(s *site) {
		s.serve(func(_ int, c speaker) {
			for _, ok := c.head(); ok; _, ok = c.head() {
				c.begin()
				for text, ok := c.part(); ok && text != ""; text, ok = c.part() {
					c.send(text)
				}
				c.end()
			}
		})
		for _, length := range []int64{20 + 100_000, -1} {
			body, feed := io.Pipe()
			r := s.request("POST", body)
			r.ContentLength = length
			resp := testkit.Value(s.the().RoundTrip(r))(s)
			for range 5 {
				_, _ = io.WriteString(feed, "echo")
				testkit.Receives(s, resp.Body, "echo")
			}
			go func() {
				_, _ = feed.Write(make([]byte, 100_000))
				feed.Close()
			}()
			if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 100_000 {
				s.Errorf("%d bytes, %v", len(rest), err)
			}
			testkit.WaitFor(s.T, "the connection to be released", func() bool { return s.the().Count().Active == 0 })
		}
	})
}

// A response that ends early fails for that reason, although the request's body could not be sent
// either. A whole response is received. The connection is closed at once.
func TestResponseIsReadAfterBodyHasFailed(t *testing.T) {
	for length, want := range map[int]error{len("part"): nil, len("part") + 1: io.ErrUnexpectedEOF} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				_, _ = http.ReadRequest(bufio.NewReader(theirs))
				fmt.Fprintf(theirs, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\npart", length)
			}()
			c := New(dialing(ours))
			resp := testkit.Value(c.RoundTrip(request(t, http.MethodPost, "http://host/", zeros{})))(t)
			defer resp.Body.Close()
			synctest.Wait() // for the body to fail
			b, err := io.ReadAll(resp.Body)
			testkit.Equal(t, string(b), "part")
			testkit.Is(t, err, want)
			testkit.Equal(t, c.Count(), Count{})
		})
	}
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

// If a request's body fails, or its length differs from ContentLength, the request fails, and the
// server does not take the body for complete.
func TestFaultyBodiesFail(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	wrapped := fmt.Errorf("%w: %w", io.ErrClosedPipe, io.EOF)
	for _, test := range []struct {
		name   string
		body   func() io.Reader
		length int64
		want   string
	}{
		{"short, too short", func() io.Reader { return hidden("body") }, 5, "ContentLength=5 with Body length 4"},
		{"short, too long", func() io.Reader { return hidden("body") }, 3,
			"ContentLength=3 with Body length 4 or more"},
		{"short, broken", func() io.Reader { return iotest.ErrReader(io.ErrClosedPipe) }, 3, io.ErrClosedPipe.Error()},
		{"long, too short", func() io.Reader { return hidden(long) }, 100_001, "with Body length 100000"},
		{"long, too long", func() io.Reader { return hidden(long) }, 99_999, "with Body length 100000 or more"},
		{"long, broken", func() io.Reader { return io.MultiReader(hidden(long), iotest.ErrReader(io.ErrClosedPipe)) }, 200_000,
			io.ErrClosedPipe.Error()},
		{"wraps io.EOF", func() io.Reader { return io.MultiReader(hidden(long), iotest.ErrReader(wrapped)) }, -1,
			wrapped.Error()},
		{"short, wraps io.EOF", func() io.Reader { return io.MultiReader(hidden("bod"), iotest.ErrReader(wrapped)) }, 4,
			wrapped.Error()},
		{"never anything", func() io.Reader { return idleReader{} }, -1, io.ErrNoProgress.Error()},
		{"never an end", func() io.Reader { return io.MultiReader(hidden(long), idleReader{}) }, 100_000,
			io.ErrNoProgress.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			overAll(t, func(s *site) {
				s.serve(func(_ int, c speaker) {
					if _, body, ok := receive(c); ok {
						s.Errorf("the server received a whole request, with %d bytes", len(body))
					}
				})
				r := s.request("POST", test.body())
				r.ContentLength = test.length
				var isOpen atomic.Int32
				countBodies(r, &isOpen)
				_, err := s.do(r)
				if e, ok := errors.AsType[*Error](err); !ok || e.Side != Local || e.Kind != BadBody ||
					!strings.HasSuffix(err.Error(), test.want) {
					s.Errorf("%v, want %s", err, test.want)
				}
				testkit.WaitFor(s.T, "the body to be closed", func() bool { return isOpen.Load() == 0 })
			})
		})
	}
}

// deaf is a connection that accepts only the first byte of a write.
type deaf struct{ net.Conn }

func (d deaf) Write(b []byte) (int, error) {
	n, _ := d.Conn.Write(b[:1])
	return n, io.ErrShortWrite
}

// The timeouts, in a synctest bubble.
func TestTimeouts(t *testing.T) {
	for _, test := range []struct {
		name    string
		set     func(*Config)
		pause   time.Duration // before the response's head
		body    time.Duration // until the request's body ends
		second  bool          // the request is the second one on its connection
		want    Kind          // 0 for no error
		elapsed time.Duration
		text    string
	}{
		{name: "head", set: func(c *Config) { c.Settings.ResponseHeaderTimeout = time.Minute }, pause: time.Hour,
			want: TimedOut, elapsed: time.Minute, text: "no response within 1m0s (ResponseHeaderTimeout)"},
		{name: "head of the second response", set: func(c *Config) { c.Settings.ResponseHeaderTimeout = time.Minute },
			pause: time.Hour, second: true, want: TimedOut, elapsed: time.Minute, text: "ResponseHeaderTimeout"},
		{name: "head in time", set: func(c *Config) { c.Settings.ResponseHeaderTimeout = 2 * time.Hour },
			pause: time.Hour, elapsed: 3 * time.Hour},
		{name: "head after a slow body", set: func(c *Config) { c.Settings.ResponseHeaderTimeout = time.Minute },
			pause: time.Hour, body: time.Hour, want: TimedOut, elapsed: time.Hour + time.Minute,
			text: "ResponseHeaderTimeout"},
		{name: "dialing", set: func(c *Config) {
			c.DialTimeout = time.Minute
			c.Settings.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}, want: TimedOut, elapsed: time.Minute, text: "connecting to host:1"},
		{name: "a server that reads no more", set: func(c *Config) {
			dial := c.Settings.DialContext
			c.Settings.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				return deaf{nc}, err
			}
		}, pause: time.Hour, want: CannotSend, elapsed: time.Second, text: io.ErrShortWrite.Error()},
	} {
		for _, protocol := range protocols() {
			t.Run(test.name+"/"+protocol.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, protocol, "memory")
					test.set(&s.config)
					s.serve(func(_ int, c speaker) {
						if test.second {
							receive(c)
							c.respond("first")
						}
						receive(c)
						time.Sleep(test.pause)
						c.begin()
						time.Sleep(2 * time.Hour)
						c.send("hello")
						c.end()
					})
					if test.second {
						s.must(s.request("GET", nil), "first")
					}
					began := time.Now()
					r := s.request("POST", nil)
					if test.body > 0 {
						in, out := io.Pipe()
						r.Body = in
						time.AfterFunc(test.body, func() { out.Close() })
					}
					resp, err := s.the().RoundTrip(r)
					if test.want == 0 && err == nil {
						var b []byte
						if b, err = io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
							t.Errorf("%q, %v", b, err)
						}
					} else if e, ok := errors.AsType[*Error](err); !ok || e.Kind != test.want ||
						e.Timeout() != (e.Kind == TimedOut) || !strings.Contains(err.Error(), test.text) {
						t.Errorf("%v", err)
					}
					testkit.Equal(t, time.Since(began), test.elapsed)
				})
			})
		}
	}
}

// A response's head may be as long as the limit, and not a byte longer.
func TestResponseHeadIsLimited(t *testing.T) {
	for _, protocol := range protocols() {
		for spare, ok := range map[int]bool{0: true, -1: false} {
			s := newSite(t, protocol, "memory")
			head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
			if protocol.name != "http1" {
				head = "Status: 200\n\n"
			}
			s.config.Settings.MaxResponseHeaderBytes = int64(len(head) + spare)
			s.serve(func(_ int, c speaker) {
				if _, _, ok := receive(c); ok {
					c.begin()
					c.end()
				}
			})
			_, err := s.do(s.request("GET", nil))
			e, isError := errors.AsType[*Error](err)
			if (err == nil) != ok || !ok && (!isError || e.Kind != Malformed) {
				t.Errorf("%s: %d bytes more than the limit: %v", protocol.name, -spare, err)
			}
		}
	}
}

var _ http.RoundTripper = (*Client)(nil)
