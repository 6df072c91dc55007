package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// choppedConn reads and writes random pieces.
type choppedConn struct{ net.Conn }

func (c choppedConn) Read(p []byte) (int, error) {
	return c.Conn.Read(p[:min(len(p), 1+rand.IntN(4<<10))])
}

func (c choppedConn) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = c.Conn.Write(p[n:min(len(p), n+1+rand.IntN(4<<10))])
		n += m
	}
	return n, err
}

// Bodies pass in both directions at the same time, however small the windows are.
func TestHTTP2BodiesPassSmallWindows(t *testing.T) {
	const requests = 8
	for _, window := range []int{1, 7, 500, 20_000, 1 << 20} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			nw := new(testkit.Network)
			var plain http.Protocols
			plain.SetUnencryptedHTTP2(true)
			s := &http.Server{Protocols: &plain, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window},
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.(http.Flusher).Flush()
					_, _ = io.Copy(w, r.Body)
				})}
			served := make(chan error, 1)
			go func() { served <- s.Serve(nw.Listen()) }()
			c := New(&Config{Settings: &http.Transport{Protocols: &plain,
				HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: 1<<16 - 1},
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					nc, err := nw.Dial()
					return choppedConn{nc}, err
				}}})
			// The settings arrive: net/http does not permit the initial window that precedes them.
			wantText(t, c, request(t, http.MethodGet, "http://host/", nil), "")
			var all sync.WaitGroup
			for i := range requests {
				all.Go(func() {
					text := strings.Repeat(fmt.Sprint(i), min(300_000, window*200)+rand.IntN(1000))
					body := io.Reader(strings.NewReader(text))
					if i%2 == 0 {
						body = io.MultiReader(body) // of unknown length
					}
					_, got, err := send(c, request(t, http.MethodPost, "http://host/", body))
					if got != text || err != nil {
						t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
					}
				})
			}
			all.Wait()
			c.CloseIdleConnections()
			s.Close()
			<-served
		})
	}
}

// A body that is closed before its end cancels the stream, and what has arrived of it does not
// count toward the connection's window any more. A body that is complete is not affected by the end
// of its context.
func TestHTTP2BodiesMayEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peer *http2Peer
		var windows int64
		large := func(id uint32) []byte { return dataFrame(id, 0, strings.Repeat("x", 10_000)) }
		c, dials := serveHTTP2(t, &http.Transport{HTTP2: &http.HTTP2Config{MaxReceiveBufferPerConnection: 1<<16 - 1,
			MaxReceiveBufferPerStream: 1 << 15}}, func(p *http2Peer) {
			p.start()
			peer = p
			for h, payload, ok := p.frame(); ok; h, payload, ok = p.frame() {
				switch {
				case h.Type == wire.WindowUpdate && h.StreamID == 0:
					by, _ := wire.WindowUpdateOf(h, payload)
					windows += int64(by)
				case h.Type == wire.Headers && h.StreamID%4 == 1:
					p.write(headFrame(h.StreamID, 0, ":status", "200"))
					p.write(large(h.StreamID)[:5000]) // the rest arrives after the end
				case h.Type == wire.RSTStream:
					p.write(large(h.StreamID)[5000:])
				case h.Type == wire.Headers:
					p.respond(h.StreamID)
				}
			}
		})
		for i := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			resp := testkit.Value(c.RoundTrip(request(t, http.MethodGet, "http://host/", nil).WithContext(ctx)))(t)
			synctest.Wait()
			if i%2 == 0 {
				resp.Body.Close()
				if _, err := resp.Body.Read(make([]byte, 1)); err != ErrClosedBody { //nolint:errorlint // not wrapped
					t.Error(err)
				}
			}
			cancel()
			synctest.Wait()
			var b [10]byte
			if n, err := resp.Body.Read(b[:]); i%2 == 1 && (string(b[:n]) != "hello" || err != io.EOF) {
				t.Errorf("a complete body, whose end comes with the last data: %q, %v", b[:n], err)
			}
			if i%2 == 1 {
				resp.Body.Close()
			}
		}
		synctest.Wait()
		testkit.Equal(t, strings.Count(strings.Join(peer.seen, ","), "RST_STREAM CANCEL"), 10, "streams canceled")
		testkit.Equal(t, dials(), 1, "dials")
		testkit.Between(t, windows, 80_000, 1<<40, "bytes of the window returned")
	})
}

// A body of unknown length ends although the server has made its window negative.
func TestHTTP2BodiesEndInNegativeWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		c, _ := serveHTTP2(t, new(http.Transport), func(p *http2Peer) {
			p.start()
			for h, _, ok := p.frame(); ok; h, _, ok = p.frame() {
				switch {
				case h.Type == wire.Data && h.Flags.Has(wire.EndStream):
					p.respond(h.StreamID)
				case h.Type == wire.Data:
					p.write(wire.AppendSettings(nil, wire.Setting{ID: wire.InitialWindowSize}))
				case h.Type == wire.Settings && h.Flags.Has(wire.Ack):
					go writer.Close()
				}
			}
		})
		go func() { _, _ = io.WriteString(writer, "hello") }()
		wantText(t, c, request(t, http.MethodPost, "http://host/", reader), "hello")
	})
}

// Bodies that share a slow connection advance together: none waits until another has ended. Their
// shares differ, because which stream sends next is the scheduler's choice.
func TestHTTP2BodiesShareOutput(t *testing.T) {
	const size = 10 << 20
	synctest.Test(t, func(t *testing.T) {
		got := make(map[uint32]int)
		c, _ := serveHTTP2(t, new(http.Transport), func(p *http2Peer) {
			p.start(wire.Setting{ID: wire.InitialWindowSize, Value: size})
			p.write(wire.AppendWindowUpdate(nil, 0, 1<<30))
			for h, _, ok := p.frame(); ok; h, _, ok = p.frame() {
				if h.Type != wire.Data {
					continue
				}
				time.Sleep(time.Millisecond)
				if got[h.StreamID] += int(h.Length); h.Flags.Has(wire.EndStream) {
					for _, id := range []uint32{1, 3} {
						if got[id] < size/16 {
							t.Errorf("%d bytes of stream %d have arrived, all of stream %d", got[id], id, h.StreamID)
						}
					}
					p.respond(h.StreamID)
				}
			}
		})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				r := request(t, http.MethodPost, "http://host/", io.LimitReader(zeros{}, size))
				wantText(t, c, r, "hello")
			})
		}
		all.Wait()
	})
}

// slowConn receives 10 KB a second.
type slowConn struct{ net.Conn }

func (c slowConn) Read(p []byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	return c.Conn.Read(p[:min(len(p), 1000)])
}

// A slow server accepts a byte within the timeout, also over TLS.
func TestHTTP2SlowServersReceiveBodies(t *testing.T) {
	server, client := tlstest.Configs()
	server.NextProtos = []string{protoHTTP2}
	for _, scheme := range []string{"http", "https"} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := serveHTTP2(t, &http.Transport{TLSClientConfig: client,
				HTTP2: &http.HTTP2Config{WriteByteTimeout: 5 * time.Second}}, func(p *http2Peer) {
				if p.Conn = (slowConn{p.Conn}); scheme == "https" {
					p.Conn = tls.Server(p.Conn, server)
				}
				p.start(wire.Setting{ID: wire.InitialWindowSize, Value: 1 << 20})
				p.write(wire.AppendWindowUpdate(nil, 0, 1<<20))
				for h, _, ok := p.frame(); ok; h, _, ok = p.frame() {
					if h.Type == wire.Data && h.Flags.Has(wire.EndStream) {
						p.respond(h.StreamID)
					}
				}
			})
			r := request(t, http.MethodPost, scheme+"://host/", io.LimitReader(zeros{}, 200_000))
			wantText(t, c, r, "hello")
			c.CloseIdleConnections()
			time.Sleep(time.Minute)
		})
	}
}

// A CONNECT request without a body opens a tunnel, as over HTTP/1.1.
func TestHTTP2TunnelPassesBothDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := serveHTTP2(t, new(http.Transport), func(p *http2Peer) {
			p.start()
			for h, payload, ok := p.frame(); ok; h, payload, ok = p.frame() {
				switch {
				case h.Type == wire.Headers && h.Flags.Has(wire.EndStream):
					p.note("ended early")
				case h.Type == wire.Headers && h.StreamID == 1:
					_ = p.decoder.Decode(payload, limitsOfTests, &p.block)
					b := &p.block
					seen := fmt.Sprintf("%s %s%s", b.Method.In(b.Text), b.Authority.In(b.Text), b.Path.In(b.Text))
					p.write(headFrame(h.StreamID, 0, ":status", "200", "x-seen", seen))
				case h.Type == wire.Headers:
					p.write(headFrame(h.StreamID, 0, ":status", "403"))
					p.write(dataFrame(h.StreamID, wire.EndStream, "no"))
				case h.Type == wire.Data && h.StreamID == 1:
					p.write(dataFrame(h.StreamID, h.Flags&wire.EndStream, strings.ToUpper(string(payload))))
				}
			}
		})
		connect := request(t, http.MethodConnect, "http://host/", nil)
		connect.URL.Path, connect.Host = "", "target:443"
		resp, err := c.RoundTrip(connect)
		if err != nil || resp.ContentLength != -1 || resp.Header.Get("X-Seen") != "CONNECT target:443" {
			t.Fatal(resp, err)
		}
		tunnel, ok := resp.Body.(interface {
			io.ReadWriteCloser
			CloseWrite() error
		})
		if !ok {
			t.Fatalf("%T", resp.Body)
		}
		for _, text := range []string{"hello", "again"} {
			testkit.Send(t, tunnel, text)
			testkit.Receives(t, tunnel, strings.ToUpper(text))
		}
		testkit.Check(t, tunnel.CloseWrite())
		testkit.Reads(t, tunnel, "")
		tunnel.Close()
		wantText(t, c, connect, "no")
	})
}

// Ended receives the bytes of a stream's frames, once, and connections end after their uses.
func TestHTTP2UsesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials := serveHTTP2(t, new(http.Transport), respondAll)
		hooks := &recorder{dial: c.settings.DialContext}
		c.pool.limits.maxUses = 3
		for range 7 {
			r := request(t, http.MethodGet, "http://host/", nil)
			_, text, _ := sendCall(c, r, &Call{Hooks: hooks})
			testkit.Equal(t, text, "hello")
			synctest.Wait()
		}
		ends := hooks.ends
		head := len(headFrame(1, 0, ":status", "200")) + wire.FrameHeaderSize + len("hello")
		var sent int
		_, _ = fmt.Sscan(ends[0], &sent)
		if len(ends) != 7 || sent < 30 || sent > 100 || ends[0] != fmt.Sprint(sent, " ", head) || dials() != 3 {
			t.Errorf("%q, %d bytes in, %d dials", ends, head, dials())
		}
		c.pool.limits.maxUses, c.pool.limits.maxAge = 0, time.Minute
		for range 4 {
			_, _, _ = send(c, request(t, http.MethodGet, "http://host/", nil))
			time.Sleep(31 * time.Second)
		}
		testkit.Equal(t, dials(), 4, "dials")
	})
}

// serveALPN serves over TLS, where it offers HTTP/1.1 while isOld is set, and HTTP/2 otherwise. It
// returns the server's URL, and settings of its clients.
func serveALPN(t *testing.T, isOld *atomic.Bool, h http.HandlerFunc) (address string, settings *http.Transport) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2, s.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	offered := s.TLS.Clone()
	s.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := offered.Clone()
		if c.NextProtos = []string{protoHTTP2}; isOld.Load() {
			c.NextProtos = []string{protoHTTP1}
		}
		return c, nil
	}
	_, config := tlstest.Configs()
	return s.URL, &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
}

// The dial that negotiates HTTP/1.1 after all serves the request, and those that wait for it.
func TestServerMayStopSpeakingHTTP2(t *testing.T) {
	var isOld atomic.Bool
	address, settings := serveALPN(t, &isOld, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Proto, len(body))
	})
	c := New(&Config{Settings: settings})
	t.Cleanup(c.CloseIdleConnections)
	expect := func(want string) {
		t.Helper()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				wantText(t, c, request(t, http.MethodPost, address, strings.NewReader("body")), want)
			})
		}
		all.Wait()
	}
	expect("HTTP/2.04")
	isOld.Store(true)
	expect("HTTP/2.04") // on the connection that is open
	h := c.pool.hosts[key{host: "127.0.0.1", port: strings.TrimPrefix(address, "https://127.0.0.1:"), tls: true}]
	c.pool.mu.Lock()
	h.active++ // keeps the host
	c.pool.mu.Unlock()
	c.CloseIdleConnections()
	expect("HTTP/1.14")
	settings.Protocols = new(http.Protocols)
	settings.Protocols.SetHTTP2(true)
	only := New(&Config{Settings: settings})
	var known *Error
	if _, _, err := send(only, request(t, http.MethodGet, address, nil)); !errors.As(err, &known) ||
		known.Kind != CannotConnect {
		t.Error(err)
	}
}

// A request that was to use HTTP/2 may get a connection of HTTP/1.1, and be retried on another one:
// each receives it once.
func TestRequestForHTTP2IsEncodedOnceForHTTP1(t *testing.T) {
	var isOld atomic.Bool
	var received atomic.Int32
	isOld.Store(true)
	address, settings := serveALPN(t, &isOld, func(w http.ResponseWriter, _ *http.Request) {
		switch received.Add(1) {
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			nc, rw, _ := http.NewResponseController(w).Hijack()
			fmt.Fprint(nc, "HTTP/1.0 200 OK\r\n\r\n", rw.Reader.Buffered())
			nc.Close()
		}
	})
	c := New(&Config{Settings: settings})
	for _, want := range []string{"", "0"} {
		wantText(t, c, request(t, http.MethodGet, address, nil), want)
		c.pool.mu.Lock()
		for _, h := range c.pool.hosts {
			h.isHTTP2 = true // as after a connection of another server
		}
		c.pool.mu.Unlock()
	}
}
