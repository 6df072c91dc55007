package load_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// peer is the server's side of an HTTP/2 connection, frame by frame.
type peer struct {
	*http2.Framer
	net.Conn
	number int // of the connection
	block  bytes.Buffer
	hpack  *hpack.Encoder
}

// http2Script starts an HTTP/2 server that handles each connection by a function. Settings have
// been sent already.
func http2Script(t *testing.T, settings []http2.Setting, serve func(p *peer)) string {
	return script(t, func(n int, c net.Conn, r *bufio.Reader) {
		if _, err := io.ReadFull(r, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		p := &peer{Framer: http2.NewFramer(c, r), Conn: c, number: n}
		p.hpack = hpack.NewEncoder(&p.block)
		p.WriteSettings(settings...)
		serve(p)
	})
}

// request reads up to the end of the next request and returns its stream ID; 0 at the end of the
// connection.
func (p *peer) request() uint32 {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return 0
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				return f.StreamID
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				return f.StreamID
			}
		}
	}
}

func (p *peer) headers(id uint32, end bool, fields ...string) {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndHeaders: true,
		EndStream: end})
}

// respondToAll responds to every request.
func (p *peer) respondToAll() {
	for id := p.request(); id != 0; id = p.request() {
		p.headers(id, true, ":status", "200")
	}
}

// What a server may do is no error: end the connection, respond in any order, send interim
// responses and trailers, or hold back its window.
func TestHTTP2ServersMayReorderAndClose(t *testing.T) {
	for name, test := range map[string]struct {
		settings []http2.Setting
		serve    func(p *peer)
		body     string
	}{
		"goes away after two": {nil, func(p *peer) {
			p.headers(p.request(), true, ":status", "200")
			id := p.request()
			p.WriteGoAway(id, http2.ErrCodeNo, nil)
			p.headers(id, true, ":status", "200")
			for p.request() != 0 { // requests that were already in flight
			}
		}, ""},
		"refuses more than one at a time": {[]http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 1}},
			func(p *peer) {
				for id := p.request(); id != 0; id = p.request() {
					p.SetReadDeadline(time.Now().Add(time.Millisecond))
					if other := p.request(); other != 0 {
						p.WriteRSTStream(other, http2.ErrCodeRefusedStream)
					}
					p.SetReadDeadline(time.Time{})
					p.headers(id, true, ":status", "200")
				}
			}, ""},
		"in any order": {nil, func(p *peer) {
			for {
				first := p.request()
				if first == 0 {
					return
				}
				p.headers(first, false, ":status", "200")
				p.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // there may be no other
				if second := p.request(); second != 0 {
					p.headers(second, true, ":status", "200")
				}
				p.SetReadDeadline(time.Time{})
				p.WriteData(first, true, []byte("late"))
			}
		}, ""},
		"interim, ping, trailers, padding": {nil, func(p *peer) {
			for id := p.request(); id != 0; id = p.request() {
				p.WritePing(false, [8]byte{1})
				p.headers(id, false, ":status", "103", "link", "x")
				p.headers(id, false, ":status", "200", "content-length", "2")
				p.WriteDataPadded(id, false, []byte("ok"), make([]byte, 100))
				p.headers(id, true, "sum", "1")
			}
		}, ""},
		"small windows": {[]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 10}}, func(p *peer) {
			left := make(map[uint32]int)
			for {
				f, err := p.ReadFrame()
				if err != nil {
					return
				}
				switch f := f.(type) {
				case *http2.HeadersFrame:
					left[f.StreamID] = 3000
				case *http2.DataFrame:
					left[f.StreamID] -= len(f.Data())
					p.WriteWindowUpdate(f.StreamID, 700)
					p.WriteWindowUpdate(0, 700)
					if f.StreamEnded() && left[f.StreamID] == 0 {
						p.headers(f.StreamID, true, ":status", "200")
					}
				}
			}
		}, strings.Repeat("b", 3000)},
		"goes away in the middle of bodies": {[]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 10}},
			func(p *peer) {
				if p.number < 2 { // usually the first request of each connection; no more may come
					for kind := http2.FrameSettings; kind != http2.FrameHeaders; {
						f, err := p.ReadFrame()
						if err != nil {
							return
						}
						kind = f.Header().Type
					}
					p.WriteGoAway(0, http2.ErrCodeNo, nil)
					io.Copy(io.Discard, p.Conn)
					return
				}
				p.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1},
					http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
				p.WriteWindowUpdate(0, 1<<30)
				begun := make(map[uint32]bool)
				for {
					f, err := p.ReadFrame()
					if err != nil {
						return
					}
					id := f.Header().StreamID
					switch f := f.(type) {
					case *http2.HeadersFrame:
						begun[id] = true
					case *http2.DataFrame:
						if !begun[id] {
							p.WriteGoAway(0, http2.ErrCodeProtocol, []byte("data of no stream"))
							return
						}
						if f.StreamEnded() {
							delete(begun, id)
							p.headers(id, true, ":status", "200")
						}
					}
				}
			}, strings.Repeat("b", 3000)},
		"window that grows later": {[]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, func(p *peer) {
			p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100_000})
			p.WriteWindowUpdate(0, 1<<30)
			p.respondToAll()
		}, strings.Repeat("b", 70_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := load.Plan{URL: http2Script(t, test.settings, test.serve), Version: load.HTTP2, Connections: 2,
				Pipeline: 3, Requests: 40, Body: test.body}
			r := runCleanly(t, p)
			testkit.Equal(t, r.Statuses[200], 40, "responses with status 200")
		})
	}
}

// A request that the server's settings never allow ends with the timeout.
func TestHTTP2RequestsThatAreNotAllowedTimeOut(t *testing.T) {
	none := []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 0}}
	url := http2Script(t, none, func(p *peer) { io.Copy(io.Discard, p.Conn) })
	r := run(t, load.Plan{URL: url, Version: load.HTTP2, Connections: 1, Requests: 2, Pace: load.Constant(1),
		Timeout: 60 * time.Millisecond})
	testkit.Equal(t, r.Errors.Timeout, 2, "timeouts")
	testkit.Equal(t, r.Errors.First, "timeout: the server allows no stream")
}

// The certificate is verified for the host of the URL.
func TestCertificatesAreVerified(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	port := strings.TrimPrefix(server.URL, "https://127.0.0.1:")
	for _, test := range []struct {
		url    string
		config *tls.Config
		want   string // of the error; none if empty
	}{
		{server.URL, &tls.Config{RootCAs: roots}, ""},
		{server.URL, nil, "TLS: tls: failed to verify certificate"},
		{"https://localhost:" + port, &tls.Config{RootCAs: roots}, "not localhost"},
		{"https://localhost:" + port, &tls.Config{RootCAs: roots, ServerName: "example.com"}, ""},
	} {
		r, err := load.Run(context.Background(), load.Plan{
			URL: test.url, TLS: test.config, Connections: 2, Requests: 10,
		})
		if test.want == "" {
			if err != nil || r.Requests != 10 || r.Errors.Total() != 0 {
				t.Errorf("%s: %v, %+v", test.url, err, r)
			}
			continue
		}
		testkit.As[*load.ConnectError](t, err, test.want, test.url)
	}
}

// A server that does not support TLS, or stops in the handshake, blocks nothing.
func TestTLSFailuresAreErrors(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it takes seconds")
	plain := httptest.NewServer(nil)
	defer plain.Close()
	for name, test := range map[string]struct {
		url     string
		version load.Version
		want    string
	}{
		"plain": {strings.Replace(plain.URL, "http", "https", 1), 0,
			"first record does not look like a TLS handshake"},
		"silent": {secure(script(t, func(_ int, c net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) })), 0,
			"timeout: in the TLS handshake"},
		"closes": {secure(script(t, func(_ int, _ net.Conn, r *bufio.Reader) { r.Peek(1) })), 0, "TLS: "},
		"dribble": {secure(script(t, func(_ int, c net.Conn, r *bufio.Reader) {
			io.WriteString(c, "\x16\x03\x03")
			io.Copy(io.Discard, r)
		})), 0, "timeout: in the TLS handshake"},
		"HTTP/1": {tlsServer(t), load.HTTP2, "does not support HTTP/2: it selected \"\" by ALPN"},
	} {
		t.Run(name, func(t *testing.T) {
			p := load.Plan{URL: test.url, Version: test.version, TLS: &tls.Config{InsecureSkipVerify: true},
				Connections: 4, Duration: time.Hour, Timeout: patience}
			if strings.HasPrefix(test.want, "timeout") {
				p.Connections, p.Timeout = 200, 300*time.Millisecond
			}
			_, err := load.Run(t.Context(), p)
			if failed, ok := errors.AsType[*load.ConnectError](err); !ok || !strings.Contains(failed.First, test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func secure(url string) string { return strings.Replace(url, "http://", "https://", 1) }

// tlsServer starts a TLS server without ALPN.
func tlsServer(t *testing.T) string {
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	l := testkit.Value(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates}))(t)
	t.Cleanup(func() { l.Close() })
	go http.Serve(l, nil)
	return "https://" + l.Addr().String()
}

func TestResumedSessionsAreCounted(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	for _, caches := range []bool{false, true} {
		config := &tls.Config{InsecureSkipVerify: true, ServerName: "example.com"}
		if caches {
			config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		}
		r := run(t, load.Plan{URL: server.URL, TLS: config, Connections: 1, PerConnection: 1, Requests: 20})
		var want uint64
		if caches {
			want = r.Opened + r.Connects - 1 // all but the first
		}
		if r.Resumed != want || r.Connects == 0 {
			t.Errorf("cache %v: %d of %d sessions were resumed", caches, r.Resumed, r.Connects)
		}
	}
}
