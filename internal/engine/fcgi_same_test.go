package engine_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	stdfcgi "net/http/fcgi"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/engine/fastcgi"
	"github.com/tarehq/tare/internal/testkit"
)

func fcgiServer(settings *http.Server) server {
	s := engine.New(settings)
	s.FastCGI = true
	return s
}

// stdServer is net/http/fcgi's server, which can only be stopped by closing its listener.
type stdServer struct {
	handler http.Handler
	started chan net.Listener
}

func (s *stdServer) Serve(l net.Listener) error { s.started <- l; return stdfcgi.Serve(l, s.handler) }
func (s *stdServer) Close() error               { return (<-s.started).Close() }

// fcgiExchange returns what comes back, and whether the connection was closed.
func fcgiExchange(t *testing.T, newServer func(*http.Server) server, h http.HandlerFunc, pieces []string,
	each time.Duration) (all []byte, closed bool) {
	set := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), DisableGeneralOptionsHandler: true}
	inBubble(t, newServer, set, func(t *testing.T, _ server, c *testkit.MemConn) {
		collect := func(d time.Duration) {
			pass(d)
			for more := true; more; pass(0) { // the network buffers little at a time
				data, eof := c.Received()
				all, closed, more = append(all, data...), closed || eof, len(data) > 0
			}
		}
		for _, p := range pieces {
			for len(p) > 0 && !closed { // no more than the network buffers
				n := min(len(p), 60<<10)
				if _, err := io.WriteString(c, p[:n]); err != nil && !errors.Is(err, io.ErrClosedPipe) {
					t.Fatal(err)
				}
				p = p[n:]
				collect(each)
			}
		}
		c.CloseWrite()
		collect(time.Minute) // servers linger
	})
	return all, closed
}

// describeFCGI decodes responses in the order of their ids: net/http/fcgi sends them in any order.
// Replies to management records are first, because they do not wait for responses. correct adapts
// the responses; it may be nil.
func describeFCGI(t *testing.T, all []byte, closed bool, correct func(*fcgiResponse)) string {
	p := newFCGIPeer(t, nil)
	p.in.Reset(bytes.NewReader(all))
	texts := make(map[int]string)
	for {
		a, err := p.tryReadResponse()
		if err != nil {
			for id, cut := range p.open {
				sent, _, _ := bytes.Cut(cut.stdout, []byte("Date: "))
				texts[id] += fmt.Sprintf("%d: cut off after %q\n", id, shorten(sent))
			}
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				texts[1<<16] = fmt.Sprintln("ended by", err)
			}
			break
		}
		a.header.Del("Date")
		if correct != nil && a.stdout != nil {
			correct(a)
		}
		texts[a.id] += fmt.Sprintf("%d: ended as %d with %d\n", a.id, a.status, a.app)
		if a.stdout != nil {
			texts[a.id] += fmt.Sprintf("%v stderr %q\n%s\n", a.header, a.stderr, shorten([]byte(a.body)))
		}
	}
	for _, reply := range p.management {
		texts[0] += reply + "\n"
	}
	var text strings.Builder
	for _, id := range slices.Sorted(maps.Keys(texts)) {
		text.WriteString(texts[id])
	}
	return text.String() + fmt.Sprintf("closed=%v\n", closed)
}

// fcgiReport responds with what a handler observes of its request, as far as both servers agree on
// the form.
func fcgiReport(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	w.(http.Flusher).Flush() // so that there is no Content-Length
	fmt.Fprintf(w, "%s %s %d.%d path %q %q query %q %v\n", r.Method, r.Proto, r.ProtoMajor, r.ProtoMinor, r.URL.Path,
		r.URL.RawPath, r.URL.RawQuery, r.URL.ForceQuery)
	fmt.Fprintf(w, "host %q remote %q tls %v\n", r.Host, r.RemoteAddr, r.TLS != nil)
	fmt.Fprintf(w, "header %v\nlength %d\nbody %q %v\n", r.Header, r.ContentLength, shorten(body), err)
	env := stdfcgi.ProcessEnv(r)
	if env == nil {
		env = maps.Collect(fastcgi.Params(r.Context()))
		maps.DeleteFunc(env, func(name, _ string) bool {
			return strings.HasPrefix(name, "HTTP_") || slices.Contains(foundInRequest, name)
		})
	}
	fmt.Fprintf(w, "env %v\n", env)
}

// foundInRequest are the parameters that ProcessEnv omits.
var foundInRequest = []string{
	"CONTENT_LENGTH", "CONTENT_TYPE", "HTTPS", "PATH_INFO", "QUERY_STRING", "REMOTE_ADDR", "REMOTE_HOST", "REMOTE_PORT",
	"REQUEST_METHOD", "REQUEST_URI", "SCRIPT_NAME", "SERVER_PROTOCOL",
}

var fcgiStreams = map[string][]string{
	"kept":     {aGET("/1"), aPOST("2"), aGET("/3")},
	"not kept": {fcgiRequest{once: true}.String(), aGET("/2")},
	"other ids": {fcgiRequest{id: 7, uri: "/7"}.String() +
		fcgiRequest{id: 8, uri: "/8", body: "x", length: true}.String() + fcgiRequest{id: 65535}.String()},
	"byte by byte": strings.SplitAfter(aPOST("hello")+aGET("/2"), ""),
	"nothing":      {""},
	"interleaved": {fcgiRequest{id: 1}.head() + fcgiRequest{id: 2, uri: "/2"}.String() +
		rec(stdinStream, 1, "")},
	"begun twice":               {begins(1, true) + begins(1, true)},
	"begun twice, later":        {fcgiRequest{}.head() + aGET("/")},
	"aborted, not kept":         {begins(1, false) + abort, aGET("/")},
	"aborted behind the list":   {fcgiRequest{}.head(), abort, aGET("/")},
	"aborted behind the end":    {aGET("/"), abort, aGET("/2")},
	"abort of nothing":          {abort + rec(abortRequest, 9, "") + aGET("/")},
	"data":                      {fcgiRequest{}.head() + inRecords(dataStream, 1, 2, "data") + rec(stdinStream, 1, "")},
	"filter":                    {rec(beginRequest, 1, "\x00\x03\x01\x00\x00\x00\x00\x00"), aGET("/")},
	"unknown type of a request": {begins(1, true) + rec(99, 1, "x") + aGET("/")[16:]},
	"HTTP":                      {get},
	"garbage behind a request":  {aGET("/"), get},
	"short beginning":           {rec(beginRequest, 1, "\x00\x01")},
	"a large body":              {aPOST(strings.Repeat("x", 300_000)), aGET("/")},
}

func TestFCGIRequestsEqualThoseOfNetHTTP(t *testing.T) {
	for name, r := range fcgiRequests {
		t.Run("request/"+name, func(t *testing.T) {
			why := otherwiseThanStd["request/"+name]
			if strings.HasPrefix(r.want, "400 ") {
				why = refusals
			}
			sameFCGI(t, why, fcgiReport, []string{r.request}, nil)
		})
	}
	for name, pieces := range fcgiStreams {
		t.Run("stream/"+name, func(t *testing.T) {
			sameFCGI(t, otherwiseThanStd["stream/"+name], fcgiReport, pieces, nil)
		})
	}
}

func TestFCGIResponsesEqualThoseOfNetHTTP(t *testing.T) {
	for name, h := range handlers {
		if strings.Contains(name, "panic") || name == "abort" || strings.Contains(name, "hijack") {
			continue // net/http/fcgi would end the process
		}
		for method, body := range map[string]string{"GET": "", "HEAD": "", "POST": "hello"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				request := fcgiRequest{method: method, body: body, length: body != ""}.String()
				why := cmp.Or(otherwiseThanStd["response/"+name], otherwiseThanStd["response/"+name+"/"+method])
				sameFCGI(t, why, h, []string{request, request}, func(a *fcgiResponse) { correctToTare(a, method) })
			})
		}
	}
}

// The differences that the package documentation lists. Those that start with "detail: " are too
// small to be listed.
const (
	refusals      = "Parameters, header fields and hosts that are malformed or not valid in HTTP get 400"
	likeHTTP      = "Requests look like those of an HTTP server"
	allValues     = "A field that occurs several times has all its values"
	unknownLength = "ContentLength is -1 if there is a body and no CONTENT_LENGTH"
	wrongLength   = "If a body is shorter than CONTENT_LENGTH, Read fails"
	excess        = "What exceeds CONTENT_LENGTH is dropped"
	lateFields    = "Fields that are set after WriteHeader are not sent"
	oneAtATime    = "A connection serves one request at a time, and FCGI_MPXS_CONNS is 0"
	noInterim     = "Interim responses (1xx) are not sent, because CGI has none"
	noEnd         = "If a body is longer or shorter than the handler's Content-Length, the connection is closed"
	toTheHandler  = "detail: the handler learns of it, and its answer is sent"
	oneField      = "detail: CONTENT_TYPE and HTTP_CONTENT_TYPE are one field"
)

// otherwiseThanStd are the cases that differ, with the reason. Each must still differ.
var otherwiseThanStd = map[string]string{
	"request/absolute target":          likeHTTP,
	"request/both types":               oneField,
	"request/both types, other order":  oneField,
	"request/coding of the client's":   likeHTTP,
	"request/no name behind HTTP_":     "detail: there is no field without a name",
	"request/pragma":                   likeHTTP,
	"request/remote, bad port":         "detail: there is no such port",
	"request/repeated names":           allValues,
	"request/without, nothing":         likeHTTP,
	"request/without, unescaped":       "detail: what is in SCRIPT_NAME and PATH_INFO has been unescaped",
	"request/body/no length":           unknownLength,
	"request/body/empty length":        unknownLength,
	"request/body/shorter":             wrongLength,
	"request/body/longer":              excess,
	"request/body/longer, by a record": excess,
	"request/body/longer than nothing": excess,
	"request/body/begun again":         toTheHandler,
	"request/body/no record":           toTheHandler,
	"stream/interleaved":               oneAtATime,
	"response/599":                     "detail: no status is without words",
	"response/changed value":           lateFields,
	"response/late field":              lateFields,
	"response/close body/POST":         "detail: the error has the words that it has over HTTP",
	"response/content/HEAD":            "detail: a type that the handler sets is like one that is guessed",
	"response/early hints":             noInterim,
	"response/interfaces":              "detail: they are those over HTTP",
	"response/exact read/POST":         "detail: the end of the body comes with its last bytes, as over HTTP",
	"response/length, none/GET":        noEnd,
	"response/length, none/POST":       noEnd,
	"response/length, pieces":          "detail: Content-Type is found in the first bytes, not in the first Write",
	"response/length, write, read/GET": noEnd,
	"response/length, short/GET":       noEnd,
	"response/length, short/POST":      noEnd,
	"response/length, long":            noEnd,
	"response/max bytes/GET":           likeHTTP,
	"response/max bytes/POST":          likeHTTP,
}

// correctToTare changes a response of net/http/fcgi to what this engine sends, according to the
// package documentation.
func correctToTare(a *fcgiResponse, method string) {
	for _, name := range []string{"Connection", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"} {
		a.header.Del(name)
	}
	noBody := a.code == 204 || a.code == 304
	guessed := a.header.Get("Content-Type") == "text/plain; charset=utf-8"
	if guessed && (noBody || a.body == "" || a.header.Get("Content-Encoding") != "") {
		a.header.Del("Content-Type")
	}
	if noBody || method == "HEAD" {
		a.body = ""
	}
}

// sameFCGI compares the two. It first corrects the response of net/http/fcgi.
func sameFCGI(t *testing.T, why string, h http.HandlerFunc, pieces []string, correct func(*fcgiResponse)) {
	t.Helper()
	by := func(newServer func(*http.Server) server, correct func(*fcgiResponse)) string {
		// Some of the bubble's time passes for each, or net/http/fcgi would start the next one.
		all, closed := fcgiExchange(t, newServer, h, pieces, 10*time.Millisecond)
		return describeFCGI(t, all, closed, func(a *fcgiResponse) {
			if a.header.Del("Content-Length"); correct != nil {
				correct(a)
			}
		})
	}
	ours := by(fcgiServer, nil)
	theirs := by(func(s *http.Server) server { return &stdServer{s.Handler, make(chan net.Listener, 1)} }, correct)
	mustAgree(t, why, ours, theirs, fmt.Sprintf("%.300q", pieces))
}
