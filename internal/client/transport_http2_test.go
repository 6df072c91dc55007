package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	http2x "golang.org/x/net/http2"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// For each set of protocols and each kind of server, the protocol is that of net/http's Transport. The
// body of the request that negotiates it arrives complete.
func TestTransportUsesProtocolsOfNetHTTP(t *testing.T) {
	var plain, secure, all http.Protocols
	plain.SetUnencryptedHTTP2(true)
	secure.SetHTTP2(true)
	all.SetHTTP1(true)
	all.SetHTTP2(true)
	all.SetUnencryptedHTTP2(true)
	_, config := tlstest.Configs()
	for server, start := range map[string]func(*httptest.Server){
		"plain":        func(s *httptest.Server) { s.Start() },
		"plain HTTP/2": func(s *httptest.Server) { s.Config.Protocols = &plain; s.Start() },
		"TLS":          func(s *httptest.Server) { s.StartTLS() },
		"TLS, HTTP/2":  func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
	} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %d", r.Proto, len(b))
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		start(s)
		defer s.Close()
		for what, theirs := range map[string]*http.Transport{
			"default": {}, "forced": {ForceAttemptHTTP2: true}, "empty": {Protocols: new(http.Protocols)},
			"secure": {Protocols: &secure}, "plain": {Protocols: &plain}, "all": {Protocols: &all},
		} {
			if what == "secure" && server == "plain" || what == "plain" && strings.HasPrefix(server, "TLS") {
				continue // net/http uses HTTP/1.1, although it is not in the set: see below
			}
			theirs.TLSClientConfig = config.Clone()
			var got [2]string
			for i, rt := range []http.RoundTripper{likeTheirs(theirs), theirs} {
				webSocket := mustRequest("GET", s.URL, nil)
				webSocket.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"WebSocket"}}
				for _, r := range []*http.Request{mustRequest("POST", s.URL, io.LimitReader(zeros{}, 100_000)), webSocket} {
					if r.Method == "POST" || what != "secure" { // see above
						_, text, err := exchange(rt, r)
						got[i] += fmt.Sprint(text, err != nil)
					}
				}
				rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
			}
			testkit.Equal(t, got[0], got[1], server, what, "beside net/http")
		}
	}
	for url, excluding := range map[string]*http.Protocols{"http://host": &secure, "https://host": &plain} {
		tr := &tare.Transport{Protocols: excluding}
		testkit.Fails(tr.RoundTrip(mustRequest("GET", url, nil)))(t, "which Protocols excludes", url)
		if c := tr.Clone(); c.Protocols == tr.Protocols || *c.Protocols != *tr.Protocols {
			t.Error("Protocols are not cloned")
		}
	}
}

// scriptedHandler sends the response that the query describes.
func scriptedHandler(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	q := r.URL.Query()
	h := w.Header()
	for _, field := range q["h"] {
		name, value, _ := strings.Cut(field, ":")
		h.Add(name, value)
	}
	for range q["early"] {
		h.Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("Link")
	}
	h.Set("Date", "x")
	h["X-Seen"] = []string{fmt.Sprintf("%s %s %s %s %q %d", r.Method, r.RequestURI, r.Host, r.Proto,
		seenHeader(r.Header), len(body)) + fmt.Sprint(r.ContentLength, r.Trailer)}
	text := q.Get("body")
	if q.Has("gzip") {
		text = gzipped(text)
		h.Set("Content-Encoding", "gzip")
	}
	if q.Has("length") {
		h.Set("Content-Length", strconv.Itoa(len(text)))
	}
	if status, err := strconv.Atoi(q.Get("status")); err == nil {
		w.WriteHeader(status)
	}
	if q.Has("flush") {
		w.(http.Flusher).Flush()
	}
	_, _ = io.WriteString(w, text)
	for name := range q {
		if after, ok := strings.CutPrefix(name, "trailer-"); ok {
			h.Set(after, "late")
			h.Set(http.TrailerPrefix+"Unannounced", "late")
		}
	}
}

// seenHeader returns the fields of a request, sorted.
func seenHeader(h http.Header) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		all = append(all, fmt.Sprint(name, h[name]))
	}
	return all
}

// http2Requests returns requests of many kinds, which are made anew for each transport.
func http2Requests() (all []func(base string) *http.Request) {
	add := func(method, query string, body func() io.Reader, change ...func(r *http.Request)) {
		all = append(all, func(base string) *http.Request {
			var b io.Reader
			if body != nil {
				b = body()
			}
			r := mustRequest(method, base+"/path?"+query, b)
			for _, c := range change {
				c(r)
			}
			return r
		})
	}
	fields := func(name string, values ...string) func(r *http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	small := func() io.Reader { return strings.NewReader("small body") }
	large := func() io.Reader { return strings.NewReader(strings.Repeat("large", 50_000)) }
	unknown := func() io.Reader { return io.MultiReader(strings.NewReader("unknown length")) }
	empty := func() io.Reader { return strings.NewReader("") }
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"} {
		for _, query := range []string{"body=hello", "body=hello&length", "body=&length", "status=204", "status=304",
			"status=404&body=no", "status=500", "status=599&body=x&flush",
			"body=hello&flush&trailer-X-End&h=Trailer:X-End", "body=zipped&gzip", "body=zipped&gzip&length&flush",
			"early&early&body=x", "h=X-A:1&h=X-A:2&h=Set-Cookie:a&h=Set-Cookie:b",
			"h=Pragma:no-cache", "h=Content-Encoding:br&body=x", "h=X-Long:" + strings.Repeat("x", 30_000),
			"body=" + strings.Repeat("y", 40_000)} {
			add(method, query, nil)
		}
		if method != "GET" && method != "HEAD" {
			for _, body := range []func() io.Reader{small, large, unknown, empty} {
				add(method, "body=x", body)
			}
		}
	}
	add("GET", "", nil, fields("User-Agent", "a", "b"), fields("Cookie", "a=1; b=2", "c=3"))
	add("GET", "", nil, fields("User-Agent"), fields("X-Empty", ""), fields("X-Two", "1", "2"))
	add("GET", "", nil, fields("user-agent", "a", "b"))
	add("GET", "body=x&gzip", nil, fields("Accept-Encoding", "gzip"))
	add("GET", "body=x&gzip", nil, fields("Range", "bytes=0-1"))
	add("GET", "", nil, fields("Connection", "keep-alive"), fields("Keep-Alive", "x"), fields("Te", "trailers"))
	add("GET", "", nil, fields("Content-Length", "7"), fields("Transfer-Encoding", "chunked"), fields("Host", "other"))
	add("GET", "", nil, func(r *http.Request) { r.Host = "bücher.example" })
	add("GET", "", nil, func(r *http.Request) { r.Close = true })
	add("GET", "", nil, func(r *http.Request) { r.Method = "" })
	add("GET", "", nil, func(r *http.Request) {
		r.URL = &url.URL{Scheme: "http", Host: r.URL.Host, Opaque: "/opaque?x"}
	})
	add("GET", "", nil, func(r *http.Request) { r.URL.Path = "" })
	add("OPTIONS", "", nil, func(r *http.Request) { r.URL.Path, r.URL.Opaque, r.URL.RawQuery = "*", "", "" })
	add("POST", "body=x", unknown, func(r *http.Request) { r.Trailer = http.Header{"X-T": {"1"}, "X-U": nil} })
	add("POST", "body=x", small, func(r *http.Request) { r.Trailer = http.Header{"X-T": {"1"}} })
	add("POST", "body=x", small, fields("Expect", "100-continue"))
	return all
}

// Responses over HTTP/2 have the fields that net/http's Transport gives them. Their bodies behave
// in the same way. Servers see the same requests.
func TestTransportReturnsHTTP2ResponsesOfNetHTTP(t *testing.T) {
	for name, serve := range map[string]func(s *http.Server, l net.Listener) error{
		"net/http": func(s *http.Server, l net.Listener) error { return s.Serve(l) },
		"tare":     func(s *http.Server, l net.Listener) error { return tare.Wrap(s).Serve(l) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listenAt(t, "tcp", "127.0.0.1:0")
			s := &http.Server{Handler: http.HandlerFunc(scriptedHandler), Protocols: onlyHTTP2()}
			served := make(chan error, 1)
			go func() { served <- serve(s, l) }()
			defer func() { s.Close(); l.Close(); <-served }()
			ours, theirs := &tare.Transport{Protocols: onlyHTTP2()}, &http.Transport{Protocols: onlyHTTP2()}
			defer ours.CloseIdleConnections()
			defer theirs.CloseIdleConnections()
			for _, request := range http2Requests() {
				got, want := observe(t, ours, request("http://"+l.Addr().String())), observe(t, theirs,
					request("http://"+l.Addr().String()))
				if got != want {
					r := request("")
					t.Errorf("%s %.100s:\n%.700s\nnet/http:\n%.700s", r.Method, r.URL, got, want)
				}
			}
		})
	}
}

// observe sends a request, and describes the response and the hooks that are called.
func observe(t *testing.T, rt http.RoundTripper, r *http.Request) string {
	var interim []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
		interim = append(interim, fmt.Sprint(status, h))
		return nil
	}}
	r = r.WithContext(httptrace.WithClientTrace(context.WithoutCancel(t.Context()), trace))
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return "error"
	}
	// net/http has another empty body for HTTP/2
	isNone := strings.NewReplacer("none true", "", "none false", "")
	return fmt.Sprint(interim) + isNone.Replace(describeResponse(resp, r))
}

// The error of a stream that the server resets has the text of net/http's, and is an
// http2.StreamError of golang.org/x/net.
func TestTransportReturnsHTTP2ResetsOfNetHTTP(t *testing.T) {
	t.Parallel()
	p := newPeer(t, "tcp")
	p.serveWith(&http.Server{Protocols: onlyHTTP2(), Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				_ = http.NewResponseController(w).Flush()
			}
			panic(http.ErrAbortHandler)
		})})
	p.tr.Protocols = onlyHTTP2()
	theirs := &http.Transport{Protocols: onlyHTTP2()}
	defer theirs.CloseIdleConnections()
	for _, method := range []string{http.MethodPost, http.MethodPut} { // resets before and after a head
		for _, rt := range []http.RoundTripper{p.tr, theirs} {
			_, _, err := exchange(rt, mustRequest(method, p.url, nil))
			reset, isReset := errors.AsType[http2x.StreamError](err)
			if !isReset || reset.Code != http2x.ErrCodeInternal || err.Error() != reset.Error() ||
				!strings.HasSuffix(err.Error(), "; INTERNAL_ERROR; received from peer") {
				t.Errorf("%s, %T: error %v, as StreamError %v", method, rt, err, reset)
			}
		}
	}
}

// An extended CONNECT request (RFC 8441) waits for the server's settings.
func TestTransportSendsExtendedConnect(t *testing.T) {
	for _, supported := range []bool{true, false} {
		l := listenAt(t, "tcp", "127.0.0.1:0")
		s := tare.Wrap(&http.Server{Protocols: onlyHTTP2(), Handler: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Seen", r.Header.Get(":protocol")+r.RequestURI)
				w.(http.Flusher).Flush()
				_, _ = io.Copy(writeFlusher{w}, r.Body)
			})})
		s.ExtendedConnect = supported
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		tr := &tare.Transport{Protocols: onlyHTTP2()}
		r := mustRequest("CONNECT", "http://"+l.Addr().String()+"/chat", nil)
		r.Header[":protocol"] = []string{"websocket"}
		resp, err := tr.RoundTrip(r)
		switch {
		case !supported && err == nil:
			t.Error("an unsupported CONNECT request was sent")
		case supported && err != nil:
			t.Error(err)
		case supported:
			testkit.Equal(t, resp.Header.Get("X-Seen"), "websocket/chat")
			testkit.Send(t, resp.Body.(io.Writer), "hello")
			testkit.Receives(t, resp.Body, "hello")
			resp.Body.Close()
		}
		tr.CloseIdleConnections()
		s.Close()
		<-served
	}
}

// writeFlusher flushes each Write.
type writeFlusher struct{ w http.ResponseWriter }

func (f writeFlusher) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	f.w.(http.Flusher).Flush()
	return n, err
}
