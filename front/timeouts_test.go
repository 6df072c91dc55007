package front_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// A client that stops sending its body is disconnected without a response, as by nginx. Neither later
// requests nor slow handlers are affected.
func TestStalledBodyTimesOut(t *testing.T) {
	const timeout = time.Second
	synctest.Test(t, func(t *testing.T) {
		conn := inMemory(t, conf.Settings{BodyTimeout: timeout}, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); r.URL.Path == "/stalled" {
				testkit.Is(t, err, os.ErrDeadlineExceeded, "the handler's error")
				fmt.Fprint(w, "too late")
				return
			}
			select {
			case <-r.Context().Done():
				t.Error("the request has ended")
			case <-time.After(3 * timeout):
			}
			fmt.Fprint(w, "ok")
		})
		in := bufio.NewReader(conn)
		for range 2 {
			fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
			testkit.Reads(t, testkit.Value(http.ReadResponse(in, nil))(t).Body, "ok")
		}
		began := time.Now()
		fmt.Fprint(conn, "POST /stalled HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
		testkit.Reads(t, in, "")
		testkit.Equal(t, time.Since(began), timeout, "the end after")
	})
}

// A client that reads nothing of a long response times out; one that reads slowly does not.
func TestStalledReaderTimesOut(t *testing.T) {
	const timeout = time.Second
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		conn := inMemory(t, conf.Settings{SendTimeout: timeout}, func(w http.ResponseWriter, _ *http.Request) {
			var err error
			for err == nil {
				_, err = w.Write(make([]byte, 8<<20))
			}
			failed <- err
		})
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		for range 20 {
			testkit.Value(io.ReadFull(conn, make([]byte, 256<<10)))(t)
			select {
			case err := <-failed:
				t.Fatalf("while the client reads: %v", err)
			case <-time.After(timeout / 2):
			}
		}
		stopped := time.Now()
		testkit.Is(t, <-failed, os.ErrDeadlineExceeded)
		testkit.Between(t, time.Since(stopped), 0, timeout, "the end after")
	})
}

// inMemory serves a bound handler with settings in fake time, and returns a connection to it.
func inMemory(t *testing.T, s conf.Settings, h http.HandlerFunc) net.Conn {
	t.Helper()
	var network testkit.Network
	f := inFakeTime(t, oneHost(app(s)), h)
	server := &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0)}
	l := network.Listen()
	go func() { _ = server.Serve(l) }()
	conn := testkit.Value(network.Dial())(t)
	t.Cleanup(func() {
		conn.Close()
		_ = server.Close()
		synctest.Wait()
		testkit.Must(t, f.Close())
	})
	return conn
}

// The rate is nginx's: the same number of bytes in the first second and in each following one. An
// invalid one of the handler is ignored.
func TestRateIsNginxs(t *testing.T) {
	for _, c := range []struct {
		rate, after conf.Text
		field       string
		bytes       int
		want        time.Duration
	}{
		{"1k", "", "", 1024, 0}, {"1k", "", "", 1025, time.Second}, {"1k", "", "", 5 * 1024, 4 * time.Second},
		{"1k", "4k", "", 5 * 1024, 0}, {"1k", "3k", "", 5 * 1024, time.Second}, {"0", "", "", 1 << 20, 0},
		{"$arg_rate", "", "", 2048, time.Second},
		{"1k", "", "fast", 4096, 3 * time.Second}, {"1k", "", "-1", 4096, 3 * time.Second},
		{"1k", "", "2k", 4096, time.Second}, {"1k", "", "0", 4096, 0},
	} {
		for _, copied := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := inFakeTime(t, oneHost(app(conf.Settings{Rate: c.rate, RateAfter: c.after})),
					func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("X-Accel-Limit-Rate", c.field)
						if copied {
							_, _ = io.Copy(w, io.LimitReader(zeros{}, int64(c.bytes)))
						} else {
							_, _ = w.Write(make([]byte, c.bytes))
						}
					})
				start := time.Now()
				w := serveInMemory(t.Context(), f, "/?rate=1k")
				testkit.Equal(t, w.Body.Len(), c.bytes, c, copied, "bytes")
				testkit.Equal(t, time.Since(start), c.want, c, copied, "time")
				_ = f.Close()
			})
		}
	}
}

// Close waits for requests of earlier Configs, too.
func TestCloseWaitsForEarlierConfigs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, finish := oneHost(app(conf.Settings{})), make(chan struct{})
		f := inFakeTime(t, c, func(http.ResponseWriter, *http.Request) { <-finish })
		go serveInMemory(t.Context(), f, "/")
		synctest.Wait()
		testkit.Must(t, f.Reload(c))
		closed := make(chan error, 1)
		go func() { closed <- f.Close() }()
		synctest.Wait()
		testkit.Equal(t, len(closed), 0, "Close has returned before a request has ended")
		close(finish)
		testkit.Must(t, <-closed)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A client that stops sending a body while it is forwarded is disconnected without a response, as
// by nginx, and the access log has 408. No upstream is held to blame for it: none is logged, and no
// other one is tried.
func TestClientThatStopsSendingIsDisconnected(t *testing.T) {
	for protocol, scheme := range map[string]string{"proxy": "http://", "fastcgi": ""} {
		for _, length := range []string{"100", "100000"} {
			to := testkit.ServeTCP(t, func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) })
			backup := testkit.ServeTCP(t, func(net.Conn) { t.Error("another server was tried") })
			access := filepath.Join(t.TempDir(), "access.log")
			var logged bytes.Buffer
			h := confFront(t, `log_format short "$status $bytes_sent";`+
				"upstream up { server "+to+"; server "+backup+" backup; }",
				"client_body_timeout 100ms; error_page 408 /page; access_log "+access+" short; location / { "+
					strings.ReplaceAll("P_request_buffering off; P_pass "+scheme+"up; }", "P_", protocol+"_"), nil,
				front.LogErrors(log.New(&logged, "", 0)))
			l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
			server := runTare(t, l, h)
			nc := dial(t, "tcp", l.Addr().String(),
				"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: "+length+"\r\n\r\nbegin")
			testkit.Reads(t, nc, "", protocol, length)
			nc.Close()
			testkit.Must(t, server.Shutdown(t.Context()))
			testkit.Must(t, h.Close())
			testkit.Equal(t, string(testkit.Value(os.ReadFile(access))(t)), "408 0\n", protocol, length)
			testkit.Equal(t, logged.String(), "", protocol, length, "the error log")
		}
	}
}

// A connection whose client may still be sending is read after its last response as long as nginx
// would read it.
func TestLingerTimesAreNginxs(t *testing.T) {
	const (
		upload = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
		get    = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
		step   = 20 * time.Millisecond
	)
	for name, test := range map[string]struct {
		directives, text string
		sends            bool // the client sends without pause
		want             time.Duration
	}{
		"silent":          {"", upload, false, 5 * time.Second},
		"sending":         {"", upload, true, 30 * time.Second},
		"timeout":         {"lingering_timeout 1s;", upload, false, time.Second},
		"time":            {"lingering_time 2s;", upload, true, 2 * time.Second},
		"off":             {"lingering_close off;", upload, true, 0},
		"always":          {"lingering_close always;", get, false, 5 * time.Second},
		"nothing to read": {"", get, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFront(t, parseConf(t, "", test.directives+" location / { return 403; }"))
				server := tare.Wrap(&http.Server{Handler: h})
				var network testkit.Network
				l := network.Listen()
				served := make(chan error)
				go func() { served <- server.Serve(l) }()
				nc := testkit.Value(network.Dial())(t)
				start := time.Now()
				testkit.Send(t, nc, test.text)
				for open := int64(1); open > 0 && time.Since(start) < time.Minute; _, open = server.Connections() {
					if test.sends {
						_, _ = io.WriteString(nc, "more")
					}
					time.Sleep(step)
					synctest.Wait()
				}
				testkit.Between(t, time.Since(start), test.want, test.want+2*step, "the connection was open for")
				nc.Close()
				testkit.Must(t, server.Close())
				<-served
				testkit.Must(t, h.Close())
			})
		})
	}
}

const unreadConf = `
		send_timeout 100ms; root SITE;
		location = /return { return 200 text; }
		location = /redirect { return 302 /x; }
		location = /page { error_page 404 = @page; return 404; }
		location @page { return 404 page; }
		location = /password { auth_basic x; auth_basic_user_file SITE/none; }
		location /list/ { alias SITE/; autoindex on; }
		location = /proxied { proxy_pass http://UP; }
		location = /cached { proxy_pass http://UP; proxy_cache z; proxy_cache_valid any 1h; }
		location = /changed { sub_filter a b; gzip on; gzip_types *; gzip_min_length 1; proxy_pass http://UP; }
`

// A client that sends requests and reads no responses is disconnected after send_timeout, even if
// the responses are short.
func TestClientThatReadsNothingIsDisconnected(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	noLeaks(t)
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "an answer") })
	socket := serveConf(t, "proxy_cache_path DIR/cache keys_zone=z:1m;", strings.NewReplacer("SITE",
		filepath.ToSlash(site(t, "x.txt")), "UP", up).Replace(unreadConf)).socket // TCP may stall by itself
	for _, request := range []string{
		"GET /return", "GET /redirect", "GET /page", "GET /nothing", "GET /password", "GET /list/", "GET /x.txt",
		"HEAD /x.txt", "POST /x.txt", "TRACE /", "GET /%00",
		"GET /proxied", "GET /cached", "GET /changed",
	} {
		t.Run(request, func(t *testing.T) {
			nc, err := dial(t, "unix", socket, ""), error(nil)
			text := strings.Repeat(request+" HTTP/1.1\r\nHost: front.test\r\nAccept-Encoding: gzip\r\n\r\n", 100)
			for err == nil {
				_, err = io.WriteString(nc, text)
			}
			testkit.Equal(t, os.IsTimeout(err), false, "the connection was not closed")
		})
	}
}

// pausing starts an upstream whose response, of unknown length, pauses.
func pausing(t *testing.T, pause time.Duration) (addr string) {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		timer := time.NewTimer(pause) // the pause is the subject of the test
		<-timer.C
		_, _ = io.WriteString(w, "second")
	})
}

// An HTTP/2 response may pause for longer than send_timeout while nothing waits to be sent.
func TestPausedResponseDoesNotTimeOut(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	noLeaks(t)
	s := serveHTTP2(t, confFront(t, "", "send_timeout 500ms; "+passTo(pausing(t, time.Second)), nil))
	got := clientOf(t, s).get(s.URL)
	got.is(t, 200, "first second")
	testkit.Equal(t, got.proto, "HTTP/2.0")
}

// A client of HTTP/1.0 that keeps its connection receives a response with a length, also if the
// upstream pauses and states none. Otherwise it would need a connection for each request.
func TestPausedResponseKeepsConnectionOfHTTP10(t *testing.T) {
	a := serveConf(t, "", passTo(pausing(t, 50*time.Millisecond)))
	nc := dial(t, "unix", a.socket, "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
	resp := testkit.Value(http.ReadResponse(bufio.NewReader(nc), nil))(t)
	testkit.Reads(t, resp.Body, "first second")
	testkit.Fields(t, resp.Header, "the response", "Content-Length", "12", "Connection", "keep-alive")
}
