package front_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/fcgi"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// startHTTP2 starts a server that supports HTTP/2, with TLS or by prior knowledge. It responds with
// what it has received, and with a trailer field.
func startHTTP2(t *testing.T, usesTLS bool) string {
	t.Helper()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		testkit.Check(t, err)
		w.Header().Set("Trailer", "X-End")
		fmt.Fprint(w, r.Proto, " ", r.Method, " ", r.RequestURI, " ", r.Host, " ", r.Header["X-A"], r.Header["Te"],
			r.Header["User-Agent"], r.Header["Accept-Encoding"], len(body))
		w.Header().Set("X-End", "yes")
	})
	start := unencryptedHTTP2
	if usesTLS {
		start = serveHTTP2
	}
	return start(t, h).Listener.Addr().String()
}

func TestProxyHTTPVersion2IsUsed(t *testing.T) {
	plain, secure := startHTTP2(t, false), startHTTP2(t, true)
	a := serveConf(t, fmt.Sprintf("upstream two { server 127.0.0.1:1; server %s; }", plain), fmt.Sprintf(
		`proxy_http_version 2; proxy_set_header X-A a; proxy_set_header Host app.example; client_max_body_size 10m;
		location /plain { proxy_pass http://%s; } location /secure { proxy_pass https://%s; }
		location /two { proxy_pass http://two; } location /dead { proxy_pass http://127.0.0.1:1; }
		location /stream { proxy_request_buffering off; proxy_buffering off; proxy_pass http://%s; }`, plain, secure, plain))
	for _, path := range []string{"/plain", "/secure", "/two", "/stream"} {
		for _, n := range []int{0, 10, 1 << 20} {
			method := "GET"
			var body io.Reader
			if n > 0 {
				method, body = "POST", strings.NewReader(strings.Repeat("x", n))
			}
			got := a.do(method, path+"?a=b", body, "User-Agent", "", "Te", "trailers", "Connection", "x-b", "X-B", "b")
			want := fmt.Sprintf("HTTP/2.0 %s %s?a=b app.example [a] [trailers] [] [] %d", method, path, n)
			got.is(t, 200, want)
		}
	}
	a.get("/dead").is(t, 502)
}

// A stream that the server resets is an invalid header, and no error, as in nginx.
func TestResetStreamIsInvalidHeader(t *testing.T) {
	resets := unencryptedHTTP2(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	a := serveConf(t, fmt.Sprintf("upstream two { server %s max_fails=0; server %s backup; }",
		resets.Listener.Addr(), startHTTP2(t, false)), `
		location /default { grpc_pass two; }
		location /error { grpc_next_upstream error timeout; grpc_pass two; }
		location /invalid { grpc_next_upstream invalid_header; grpc_pass two; }`)
	for path, want := range map[string]int{"/default": 502, "/error": 502, "/invalid": 200} {
		a.get(path).is(t, want)
	}
}

// The value of variables in grpc_pass may have a scheme.
func TestGRPCSchemeMayComeFromVariables(t *testing.T) {
	plain, secure := startHTTP2(t, false), startHTTP2(t, true)
	a := serveConf(t, fmt.Sprintf("upstream two { server %s; }", plain), `location / { grpc_pass $arg_to; }
		location /scheme { grpc_pass ${arg_s}two; } location /if { if ($args) { grpc_pass two; } }`)
	for query, want := range map[string]int{
		"/?to=" + plain: 200, "/?to=grpc://" + plain: 200, "/?to=GRPC://" + plain: 200, "/?to=grpcs://" + secure: 200,
		"/?to=two": 200, "/?to=grpc://two": 200, "/?to=http://" + plain: 500, "/?to=": 500, "/?to=grpcs://" + plain: 502,
		"/scheme?s=grpc://": 200, "/scheme": 200, "/scheme?s=grpcs://": 502, "/if?x": 200,
	} {
		a.get(query).is(t, want)
	}
}

// hostileHTTP2 starts a server of HTTP/2 that responds to each request with frames, and counts its
// connections.
func hostileHTTP2(t *testing.T, usesTLS bool, frames func(id uint32) []byte) (addr string, dials *atomic.Int32) {
	dials = new(atomic.Int32)
	var config *tls.Config
	if usesTLS {
		config = serveHTTP2(t, nil).TLS.Clone()
	}
	return testkit.ServeTCP(t, func(nc net.Conn) {
		dials.Add(1)
		if usesTLS {
			nc = tls.Server(nc, config)
		}
		preface := make([]byte, len(wire.Preface))
		if _, err := io.ReadFull(nc, preface); err != nil {
			return
		}
		_, _ = nc.Write(wire.AppendSettings(nil))
		for {
			head := make([]byte, wire.FrameHeaderSize)
			if _, err := io.ReadFull(nc, head); err != nil {
				return
			}
			h, _ := wire.ParseFrameHeader(head)
			if _, err := io.CopyN(io.Discard, nc, int64(h.Length)); err != nil {
				return
			}
			if h.Type == wire.Headers {
				_, _ = nc.Write(frames(h.StreamID))
			}
		}
	}), dials
}

func hostileResponses() map[string]func(id uint32) []byte {
	head := func(id uint32, flags wire.Flags, fields ...string) []byte {
		b := wire.AppendStatus(wire.AppendHeaders(nil, id), 200)
		for i := 0; i < len(fields); i += 2 {
			b = wire.AppendField(b, fields[i], fields[i+1])
		}
		wire.AddFrameFlags(b, flags)
		return wire.EndBlock(b, 0, wire.MinMaxFrameSize)
	}
	return map[string]func(id uint32) []byte{
		"window": func(id uint32) []byte {
			return wire.AppendWindowUpdate(wire.AppendWindowUpdate(nil, id, wire.MaxWindow), id, wire.MaxWindow)
		},
		"goaway":  func(uint32) []byte { return wire.AppendGoAway(nil, 0, wire.NoError) },
		"refused": func(id uint32) []byte { return wire.AppendRSTStream(nil, id, wire.RefusedStream) },
		"silent":  func(uint32) []byte { return nil },
		"flood":   func(uint32) []byte { return bytes.Repeat(wire.AppendPing(nil, 0, [8]byte{}), 10_000) },
		"half":    func(id uint32) []byte { return head(id, 0)[:5] },
		"lengths": func(id uint32) []byte { return head(id, 0, "content-length", "1", "content-length", "2") },
		"signed":  func(id uint32) []byte { return head(id, 0, "content-length", "+3") },
		"upgrade": func(id uint32) []byte { return head(id, 0, "upgrade", "x") },
		"chunked": func(id uint32) []byte { return head(id, 0, "transfer-encoding", "chunked") },
	}
}

// A server that violates HTTP/2, or does not respond, costs each request one attempt and one
// connection. The other server of the group responds.
func TestHostileHTTP2UpstreamsCostOneAttempt(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	const requests = 3
	for name, frames := range hostileResponses() {
		for _, usesTLS := range []bool{false, true} {
			t.Run(fmt.Sprint(name, usesTLS), func(t *testing.T) {
				t.Parallel()
				hostile, dials := hostileHTTP2(t, usesTLS, frames)
				timeout, want := maxWait, 502
				if name == "silent" || name == "half" {
					timeout, want = 200*time.Millisecond, 504
				}
				names := strings.NewReplacer("TLS", map[bool]string{true: "s"}[usesTLS], "ALONE", hostile,
					"TIMEOUT", fmt.Sprint(timeout.Milliseconds(), "ms"))
				a := serveConf(t, fmt.Sprintf("upstream two { server %s max_fails=0; server %s max_fails=0 backup; }",
					hostile, startHTTP2(t, usesTLS)), names.Replace(`proxy_http_version 2;
					proxy_read_timeout TIMEOUT; proxy_next_upstream error timeout invalid_header non_idempotent;
					grpc_read_timeout TIMEOUT; grpc_next_upstream error timeout invalid_header non_idempotent;
					location /proxy { proxy_pass httpTLS://two; } location /grpc { grpc_pass grpcTLS://two; }
					location /alone { grpc_pass grpcTLS://ALONE; }`))
				for _, path := range []string{"/proxy", "/grpc"} {
					for range requests {
						began := time.Now()
						got := a.do("POST", path, nil)
						if took := time.Since(began); got.status == 504 && want == 504 && took >= 2*timeout {
							continue // on a busy machine the other server is late, too
						}
						got.is(t, 200)
					}
				}
				began := time.Now()
				a.get("/alone").is(t, want)
				testkit.Between(t, time.Since(began), 0, maxWait/2, "the time alone")
				testkit.Between(t, dials.Load(), 0, 2*requests+1, "connections")
			})
		}
	}
}

// As in nginx a stream counts for limit_conn until its client has let the whole body be sent.
func TestStreamCountsUntilBodyIsSent(t *testing.T) {
	noLeaks(t)
	for _, size := range []int{11, 5000, 100_000} {
		body := strings.Repeat("x", size)
		to := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		s := unencryptedHTTP2(t, confFront(t, "limit_conn_zone $request_method zone=n:1m;",
			"limit_conn n 1; "+passTo(to), nil))
		st, got := startH2(t, dial(t, "tcp", s.Listener.Addr().String(), ""), 10), 0
		st.request(t, ":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/")
		for got < 10 {
			if data, ok := testkit.Value(st.ReadFrame())(t).(*http2.DataFrame); ok {
				got += len(data.Data())
			}
		}
		get := func() int { return clientOf(t, s).get(s.URL).status }
		for range 20 {
			testkit.Equal(t, get(), http.StatusServiceUnavailable, "while ten bytes of", size, "have been sent")
		}
		for stream := range uint32(2) { // the connection, and the stream
			testkit.Must(t, st.WriteWindowUpdate(stream, 1<<20))
		}
		_, rest, _ := st.response(t)
		testkit.Equal(t, len(rest), size-got, "the rest of the body")
		testkit.WaitFor(t, "the place", func() bool { return get() == http.StatusOK })
		st.nc.Close()
		s.Close()
	}
}

// A bound handler receives an http.Hijacker over HTTP/1 only, however its response is treated.
func TestBoundHandlersHijackHTTP1Only(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		_, is := w.(http.Hijacker)
		_, err := io.WriteString(w, fmt.Sprint(is))
		fmt.Fprint(w, err, http.NewResponseController(w).Flush(), w.(interface{ FlushError() error }).FlushError())
	}
	for name, directives := range map[string]string{"unchanged": "", "observed": "send_timeout 1m;",
		"changed": "proxy_hide_header X-Secret;"} {
		h := confFront(t, "", directives+" proxy_set_header Host $http_host; "+passTo("app"), handlers{"app": app})
		for _, isHTTP2 := range []bool{false, true} {
			s := serveTest(t, h, func(s *httptest.Server) { s.EnableHTTP2, s.TLS = isHTTP2, new(tls.Config) })
			got := clientOf(t, s).get(s.URL)
			testkit.Equal(t, got.body, fmt.Sprint(!isHTTP2)+"<nil> <nil> <nil>", name, got.proto)
		}
	}
}

// application is a FastCGI application that responds with its parameters and the length of its
// input. It counts connections.
func application(t testing.TB, conns func(), extra string) string {
	return testkit.ServeTCP(t, func(nc net.Conn) {
		if conns != nil {
			conns()
		}
		for {
			params, body, keep, err := testkit.ReadFastCGI(nc)
			if err != nil {
				return
			}
			params["(body)"] = fmt.Sprint(len(body))
			text, _ := json.Marshal(params)
			b := fcgi.AppendStream(nil, fcgi.Stderr, 1, []byte(extra))
			b = fcgi.AppendStream(b, fcgi.Stdout, 1, append([]byte("Content-Type: application/json\nX-A: b\n\n"),
				text...))
			b = fcgi.AppendStreamEnd(b, fcgi.Stdout, 1)
			if _, err = nc.Write(fcgi.AppendEnd(b, 1, fcgi.End{})); err != nil || !keep {
				return
			}
		}
	})
}

// A response to HEAD is not stored for GET, because the application sends no body for HEAD.
func TestFastCGIHeadIsNotStoredForGet(t *testing.T) {
	a := serveConf(t, "fastcgi_cache_path DIR/cache keys_zone=one:1m;", `fastcgi_cache one; fastcgi_cache_key $host$request_uri;
		fastcgi_cache_lock on; fastcgi_cache_valid 1m; add_header X-Cache $upstream_cache_status;
		fastcgi_param REQUEST_METHOD $request_method; fastcgi_param METHOD $request_method;
		location / { fastcgi_pass `+application(t, nil, "")+"; }")
	a.do("HEAD", "/x", nil).want(t, "MISS", 200, "")
	got := a.get("/x")
	testkit.Fields(t, got.header, "", "X-Cache", "HIT")
	testkit.Contains(t, got.body, `"METHOD":"HEAD","REQUEST_METHOD":"GET"`)
}

// FastCGI connections are kept with KeepConn, and STDERR is logged.
func TestFastCGIConnectionsAreKept(t *testing.T) {
	for keep, want := range map[string]int{"on": 2, "off": 6} {
		conns := make(chan bool, 100)
		to := application(t, func() { conns <- true }, "PHP Warning: \x1b[31mred\n")
		log := t.TempDir() + "/log"
		a := serveConf(t, "upstream up { server "+to+"; keepalive 2; keepalive_requests 3; }", "error_log "+log+
			"; fastcgi_keep_conn "+keep+"; location / { fastcgi_pass up; }")
		for range 6 {
			a.get("/").is(t, 200)
		}
		testkit.Equal(t, len(conns), want, "keep", keep, "connections")
		line := awaitLines(t, log, 6)[0]
		testkit.Contains(t, line, `FastCGI sent in stderr: "PHP Warning: \x1b[31mred\n"`)
		testkit.Contains(t, line, "fastcgi://"+to)
	}
}

// A text of fastcgi_catch_stderr is found also if it is split between records.
func TestSplitTextInStderrIsCaught(t *testing.T) {
	for want, parts := range map[int][]string{200: {"PHP Fatal", "Error"}, 502: {"PHP Fat", "a", "l error"}} {
		var records []byte
		for _, part := range parts {
			records = fcgi.AppendStream(records, fcgi.Stderr, 1, []byte(part))
		}
		records = fcgi.AppendStream(records, fcgi.Stdout, 1, []byte("Content-Type: text/plain\r\n\r\nhello"))
		records = fcgi.AppendEnd(fcgi.AppendStreamEnd(records, fcgi.Stdout, 1), 1, fcgi.End{})
		to := testkit.ServeTCP(t, func(nc net.Conn) {
			if _, _, _, err := testkit.ReadFastCGI(nc); err == nil {
				_, _ = nc.Write(records)
			}
		})
		a := serveConf(t, "", `fastcgi_catch_stderr Warning; fastcgi_catch_stderr "Fatal error";
			location / { fastcgi_pass `+to+"; }")
		testkit.Equal(t, a.get("/").status, want, parts)
	}
}
