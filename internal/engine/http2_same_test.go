package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

var http2Modes = map[string]string{
	"h2c-shard": "tcp", "h2c-goroutine": "net.Conn", "h2-tls-goroutine": "tls", "h2-tls-shard": "ServeTLS",
}

func isTLS(mode string) bool { return strings.HasPrefix(mode, "h2-tls") }

type http2Site struct {
	*site
	tickets tls.ClientSessionCache // of raw clients; nil for full handshakes
}

// newHTTP2Site starts the server of a maker, or this engine's with all handlers "on loop".
func newHTTP2Site(t *testing.T, maker, mode string, set *http.Server) *http2Site {
	return startHTTP2Site(t, mode, set, func(set *http.Server) server {
		if maker != "on loop" {
			return makers[maker](set)
		}
		s := engine.New(set)
		s.Dispatch = engine.OnLoop
		return s
	})
}

func startHTTP2Site(t *testing.T, mode string, set *http.Server, newServer func(*http.Server) server) *http2Site {
	l, dial := modes[http2Modes[mode]](t)
	if isTLS(mode) {
		dial = (&site{dial: dial}).dialBelow
	} else {
		set.Protocols = new(http.Protocols)
		set.Protocols.SetUnencryptedHTTP2(true)
	}
	s := newHTTP2Client(t, mode, dial)
	s.start(set, newServer, l)
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

func newHTTP2Client(t *testing.T, mode string, dial func() (net.Conn, error)) *http2Site {
	s := &http2Site{site: &site{T: t, mode: mode, url: "http://a.test", dial: dial, logged: new(testkit.Log)}}
	transport := &http.Transport{DisableCompression: true, ExpectContinueTimeout: time.Minute,
		Protocols:   new(http.Protocols),
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() }}
	if isTLS(mode) {
		s.url = "https://a.test"
		transport.Protocols.SetHTTP2(true)
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	} else {
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	s.client = &http.Client{Transport: transport, Timeout: time.Minute}
	return s
}

type http2Case struct {
	method, path string
	header       http.Header
	body         func() io.Reader
	trailer      http.Header
	handler      http.HandlerFunc
}

func textBody(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

func http2Cases(t *testing.T) map[string]http2Case {
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, bytes.Repeat([]byte("0123456789"), 30000), 0o600))
	cases := map[string]http2Case{
		"simple":  {path: "/a/b?c=d"},
		"escaped": {path: "/a%2Fb%20c/(d)!?e=%20"},
		"fields": {header: http.Header{"X-A": {"1", "2", ""}, "Cookie": {"a=b", "c=d"}, "Pragma": {"no-cache"},
			"Te": {"trailers"}}},
		"large head":  {header: http.Header{"X-Large": {strings.Repeat("x", 50000)}}},
		"many fields": {header: http.Header{"X-Many": slices.Repeat([]string{"y"}, 60)}},
		"length":      {method: "POST", body: textBody("hello")},
		"unknown length": {method: "POST",
			body: func() io.Reader { return io.MultiReader(strings.NewReader("hello")) }},
		"empty body": {method: "POST", body: textBody("")},
		"long body":  {method: "POST", body: textBody(strings.Repeat("x", 3<<19))},
		"expect":     {method: "POST", header: http.Header{"Expect": {"100-continue"}}, body: textBody("hello")},
		"trailers": {method: "POST", body: func() io.Reader { return io.MultiReader(strings.NewReader("hello")) },
			trailer: http.Header{"Sum": {"1"}, "Other": {"2"}}},
		"options star": {method: "OPTIONS", path: "*"},
		"connect":      {method: "CONNECT"},
	}
	for name, c := range cases {
		c.handler = func(w http.ResponseWriter, r *http.Request) {
			r.Body = struct{ io.ReadCloser }{r.Body} // net/http has another NoBody for HTTP/2
			dump(w, r)
		}
		cases[name] = c
	}
	add := func(name string, h http.HandlerFunc) { cases[name] = http2Case{handler: h} }
	for _, size := range []int{2048, 2049, 4095, 4096, 4097} {
		add(fmt.Sprint(size, " bytes"), inTurn(write(strings.Repeat("x", size-10)), write("0123456789")))
	}
	add("invalid values", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-A"] = []string{"a\r\nb", "c", "d\x00e", "f\x7f", "\xff", ""}
		w.Header()["X-B"] = []string{"\n"}
		w.Header().Set("Trailer", "X-C")
		io.WriteString(w, "hello")
		w.Header()["X-C"] = []string{"a\r\nb", "c"}
	})
	add("trailers without body", inTurn(field("Trailer", "Sum"), status(200), field("Sum", "1")))
	add("file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	cases["full duplex"] = http2Case{method: "POST", body: textBody(strings.Repeat("z", 200000)),
		handler: func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }}
	for name, h := range handlers {
		if name == "max bytes" {
			continue // it responds with the client's address
		}
		cases[name+"/GET"] = http2Case{handler: h}
		cases[name+"/HEAD"] = http2Case{method: "HEAD", handler: h}
		cases[name+"/POST"] = http2Case{method: "POST", body: textBody("hello"), handler: h}
	}
	return cases
}

// writeInterfaces lists the optional interfaces of a ResponseWriter, and what a controller can do.
func writeInterfaces(w http.ResponseWriter, _ *http.Request) {
	_, flusher := w.(http.Flusher)
	_, flushes := w.(interface{ FlushError() error })
	_, hijacker := w.(http.Hijacker)
	_, notifier := w.(http.CloseNotifier) // published programs assert it
	_, from := w.(io.ReaderFrom)
	_, text := w.(io.StringWriter)
	_, deadlines := w.(interface {
		SetReadDeadline(time.Time) error
		SetWriteDeadline(time.Time) error
		EnableFullDuplex() error
	})
	c := http.NewResponseController(w)
	fmt.Fprintln(w, "Flusher", flusher, "FlushError", flushes, "Hijacker", hijacker, "CloseNotifier", notifier,
		"ReaderFrom", from, "StringWriter", text, "deadlines", deadlines, "controller", c.SetReadDeadline(time.Time{}),
		c.SetWriteDeadline(time.Time{}), c.EnableFullDuplex(), c.Flush())
}

func (s *http2Site) result(c http2Case) string {
	s.Helper()
	path := c.path
	if path == "" || path == "*" {
		path = "/"
	}
	var body io.Reader
	if c.body != nil {
		body = c.body()
	}
	var interim []string
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			interim = append(interim, fmt.Sprint(code, h))
			return nil
		}})
	r := testkit.Value(http.NewRequestWithContext(ctx, c.method, s.url+path, body))(s)
	if c.path == "*" {
		r.URL.Path, r.URL.Opaque = "", "*"
	}
	maps.Copy(r.Header, c.header)
	r.Trailer = c.trailer
	response, err := s.client.Do(r)
	if err != nil {
		return fmt.Sprint("error ", strings.Contains(err.Error(), "INTERNAL_ERROR"), interim)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	response.Header.Del("Date")
	if response.Header.Get("Last-Modified") != "" {
		response.Header.Set("Last-Modified", "some day")
	}
	return varying.ReplaceAllString(fmt.Sprintf("%s %s %v length %d\n%v\n%s\n%v\ntrailer %v", response.Proto,
		response.Status, interim, response.ContentLength, response.Header, shorten(content), err != nil,
		response.Trailer), "...")
}

// http2Otherwise are the handlers whose responses differ, with the reason. Each must still differ.
// Those that start with "detail: " are too small for the package documentation.
var http2Otherwise = map[string]string{
	"304 with all":    "a 304 has neither Content-Type nor Content-Length, and a 204 has no Content-Length",
	"304 with type":   "a 304 has neither Content-Type nor Content-Length",
	"204 with all":    "a 304 has neither Content-Type nor Content-Length, and a 204 has no Content-Length",
	"length, long":    "a Write of more bytes fails, as over HTTP/1",
	"close body/POST": "detail: the error has the words that it has over HTTP/1",
}

func TestHTTP2IsThatOfNetHTTP(t *testing.T) {
	t.Parallel()
	var handler atomic.Pointer[http.HandlerFunc] // of the current case
	theirs, ours := make(map[string]*http2Site), make(map[string]*http2Site)
	for mode := range http2Modes {
		for maker, sites := range map[string]map[string]*http2Site{"net/http": theirs, "tare": ours} {
			sites[mode] = newHTTP2Site(t, maker, mode, &http.Server{Handler: http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) { (*handler.Load())(w, r) })})
		}
	}
	for name, c := range http2Cases(t) {
		t.Run(name, func(t *testing.T) {
			group, method, isHandler := strings.Cut(name, "/")
			why := cmp.Or(http2Otherwise[name], http2Otherwise[group])
			modes := slices.Sorted(maps.Keys(http2Modes))
			if isHandler { // each path, and each of TLS and none
				modes = []string{"h2-tls-shard", "h2c-goroutine"}
			}
			handler.Store(&c.handler)
			for _, mode := range modes {
				got, want := ours[mode].result(c), theirs[mode].result(c)
				if why == "" || method != "HEAD" { // without the body they may be equal
					mustAgree(t, why, got, want, mode)
				}
			}
		})
	}
}

// inExtendedConnectProcess reports whether net/http offers extended CONNECT in this process.
// Otherwise it runs the test in a process in which it does.
func inExtendedConnectProcess(t *testing.T) bool {
	const setting = "http2xconnect=1"
	if strings.Contains(os.Getenv("GODEBUG"), setting) {
		return true
	}
	c := testkit.Command(t, os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), "GODEBUG="+setting)
	testkit.Succeeds(t, c)
	return false
}

func accept(w http.ResponseWriter) {
	w.Header().Set("Sec-Websocket-Protocol", "chat")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
}

// connectHandlers respond to extended CONNECT. After the response's head, the stream is as that of
// any POST.
var connectHandlers = map[string]http.HandlerFunc{
	"echo": func(w http.ResponseWriter, r *http.Request) {
		accept(w)
		fmt.Fprintf(w, "%s %q %s %#v %q %v %d %v\n", r.Method, r.RequestURI, r.Proto, *r.URL, r.Host, r.Header,
			r.ContentLength, r.TLS != nil)
		w.(http.Flusher).Flush()
		for p, err := make([]byte, 100), error(nil); err == nil; {
			var n int
			n, err = r.Body.Read(p)
			_, _ = w.Write(p[:n])
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, "bye")
	},
	"rejected": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotImplemented) },
}

// connectAndSend sends an extended CONNECT request and then pieces, each when something has arrived
// after the piece before. It returns the response. It reads and writes frames: since Go 1.27, no
// client of net/http sends such a request.
func (s *http2Site) connectAndSend(pieces ...string) string {
	s.Helper()
	c := s.raw()
	c.frames.AddHead(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", s.url[:strings.Index(s.url, ":")],
		":authority", "a.test", ":path", "/chat%20a?room=1", "sec-websocket-version", "13", "origin", "https://a.test")
	c.send("")
	var fields, body strings.Builder
	for hasEnded := false; !hasEnded; {
		frame := testkit.Value(c.reader.ReadFrame())(c)
		hasArrived := false
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, f := range frame.Fields {
				if f.Name != "date" {
					fmt.Fprintln(&fields, f.Name, f.Value)
				}
			}
		case *http2.DataFrame:
			body.Write(frame.Data())
			hasArrived = len(frame.Data()) > 0
		}
		if hasArrived && len(pieces) > 0 {
			c.frames.Framer.WriteData(1, len(pieces) == 1, []byte(pieces[0]))
			c.send("")
			pieces = pieces[1:]
		}
		hasEnded = frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream)
	}
	return fields.String() + body.String()
}

func TestExtendedConnectIsThatOfNetHTTP(t *testing.T) {
	if !inExtendedConnectProcess(t) {
		return
	}
	for name, handler := range connectHandlers {
		for _, mode := range slices.Sorted(maps.Keys(http2Modes)) {
			t.Run(name+" "+mode, func(t *testing.T) {
				result := func(maker string) string {
					return newHTTP2Site(t, maker, mode, &http.Server{Handler: handler}).connectAndSend("hello", "world")
				}
				testkit.Equal(t, result("tare"), result("net/http"))
			})
		}
	}
}
