package engine_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// dump responds with everything that a handler can observe of its request.
func dump(w http.ResponseWriter, r *http.Request) {
	before := fmt.Sprint(r.Trailer)
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %q %s %d.%d\n", r.Method, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor)
	fmt.Fprintf(w, "url %#v\n", *r.URL)
	isSecure := r.TLS != nil && r.TLS.HandshakeComplete
	fmt.Fprintf(w, "host %q remote %q tls %v close %v\n", r.Host, r.RemoteAddr, isSecure, r.Close)
	fmt.Fprintf(w, "header %v\n", r.Header)
	fmt.Fprintf(w, "length %d coding %v nobody %v\n", r.ContentLength, r.TransferEncoding, r.Body == http.NoBody)
	fmt.Fprintf(w, "body %q %v\n", shorten(body), err)
	fmt.Fprintf(w, "trailer before %s after %v\n", before, r.Trailer)
	fmt.Fprintf(w, "context %v %v %v\n", r.Context().Err(), r.Context().Value(http.ServerContextKey) != nil,
		r.Context().Value(http.LocalAddrContextKey))
}

const host = "Host: a\r\n"

// requests are sent to dump. What the handler observes is compared.
var requests = map[string][]string{
	"simple":               {target("/a/b?c=d")},
	"split":                {"GE", "T /a/b?c=d HTTP/1.1\r", "\n" + host, "\r\n"},
	"pipelined":            {target("/1") + target("/2") + target("/3")},
	"kept":                 {target("/1"), target("/2")},
	"close":                {withField("Connection: close") + get},
	"1.0":                  {getOld},
	"1.0 keep-alive":       {getKeep, getOld},
	"head":                 {head},
	"absolute":             {target("http://b:80/c?d")},
	"absolute no path":     {target("http://b")},
	"connect":              {"CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n"},
	"connect path":         {"CONNECT /rpc HTTP/1.1\r\n" + host + "\r\n"},
	"connect no host":      {"CONNECT b:443 HTTP/1.1\r\n\r\n"},
	"bare LF":              {"GET /rpc HTTP/1.0\nConnection: keep-alive\n\n", "GET / HTTP/1.1\nHost: a\nX: y\n\n"},
	"bare LF, kept":        {"GET / HTTP/1.1\nHost: a\n\n", target("/2")},
	"empty host":           {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET http://b/c HTTP/1.1\r\nHost:\r\n\r\n"},
	"other coding":         {posted("Transfer-Encoding: fugazi", "")},
	"options star":         {"OPTIONS * HTTP/1.1\r\n" + host + "\r\n"},
	"options star body":    {"OPTIONS * HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", get},
	"options star expects": {"OPTIONS * HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", get},
	"star":                 {target("*")},
	"escaped path":         {target("/a%2Fb%20c/(d)!?")},
	"plain path":           {target("/a-b_c.d~e$f&g+h,i/j:k;l=m@n")},
	"two slashes":          {target("//a//b")},
	"question marks":       {target("/a?b?c??")},
	"empty query":          {target("/a?")},
	"fragment":             {target("/a#b?c#d")},
	"high bytes":           {target("/\xc3\xa9?\xc3\xa9")},
	"repeated fields":      {withField("x-a: 1\r\nX-A: 2\r\nx-A:\r\nAccept: b\r\nCookie: a=b\r\ncookie: c=d")},
	"many fields":          {withField(strings.Repeat("X-Many: y\r\n", 30) + "Z: z")},
	"pragma":               {withField("Pragma: no-cache")},
	"odd names":            {withField("x_under-score: 1\r\n!#$: 2\r\netag: 3\r\nTE: trailers")},
	"length":               {post + target("/next")},
	"length in pieces":     {posted("Content-Length: 5", ""), "he", "llo", target("/next")},
	"length zero":          {posted("Content-Length: 0", "")},
	"long body":            {upload},
	"body cut off":         {posted("Content-Length: 5", "he"), closeWrite},
	"chunked":              {chunkedPost + "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n" + target("/next")},
	"chunked in pieces":    {posted("Transfer-Encoding: chunked", "3\r"), "\nab", "c\r\n0\r\n", "\r\n"},
	"chunked with length":  {withField("Trailer: Sum")},
	"trailers": {posted("Transfer-Encoding: chunked\r\nTrailer: Sum, other",
		"3\r\nabc\r\n0\r\nSum: 1\r\nMore: 2\r\n\r\n")},
	"trailer of a known name": {chunkedPost + "0\r\nAuthorization: root\r\n\r\n"},
	"declined upgrade": {"GET /1 HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" +
		"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + target("/2")},
	"preface of HTTP/2": {"P", "RI * HT", "TP/2.0\r\n\r", "\nSM\r\n\r\n", closeWrite},
	"chunked cut off":   {chunkedPost + "3\r\nab", closeWrite},
	"continue":          {expect, "hello", target("/next")},
	"continue twice":    {posted("Content-Length: 5\r\nExpect: 100-continue\r\nExpect: 100-continue", ""), "hello"},
	"continue, unknown": {posted("Content-Length: 5\r\nExpect: 100-continue\r\nExpect: wonders", ""), "hello"},
	"continue in list":  {posted("Content-Length: 5\r\nExpect: wonders, 100-continue", ""), "hello"},
	"continue no body":  {withField("Expect: 100-continue")},
	"continue on 1.0":   {"POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello"},
	"half closed":       {get, closeWrite},
	"nothing":           {closeWrite},
	"part of a head":    {"GET / HT", closeWrite},
}

func posted(fields, body string) string {
	return "POST / HTTP/1.1\r\n" + host + fields + "\r\n\r\n" + body
}

func TestRequestsEqualThoseOfNetHTTP(t *testing.T) {
	for name, pieces := range requests {
		t.Run(name, func(t *testing.T) {
			skipChanged(t, name)
			same(t, deliberate[name], http.HandlerFunc(dump), pieces)
		})
	}
}

func same(t *testing.T, why string, h http.Handler, pieces []string) {
	t.Helper()
	got := map[string]string{}
	for name, newServer := range makers {
		got[name] = transcript(t, newServer, &http.Server{Handler: h}, pieces)
	}
	mustAgree(t, why, got["tare"], got["net/http"], fmt.Sprintf("%.300q", pieces))
}

// mustAgree fails unless both servers have given the same, or differ for a reason.
func mustAgree(t *testing.T, why, ours, theirs, what string) {
	t.Helper()
	switch equal := ours == theirs; {
	case equal && why != "":
		t.Errorf("%s: no longer differs: %s", what, why)
	case !equal && why == "":
		t.Errorf("%s\n--- net/http\n%s\n--- tare\n%s", what, theirs, ours)
	}
}

const (
	get     = "GET / HTTP/1.1\r\n" + host + "\r\n"
	getOld  = "GET / HTTP/1.0\r\n\r\n"
	getKeep = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
	head    = "HEAD / HTTP/1.1\r\n" + host + "\r\n"
	post    = "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello"
	expect  = "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
	chunked = "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
)

// upload has a body that does not arrive together with its head.
var upload = "POST / HTTP/1.1\r\n" + host + "Content-Length: 20000\r\n\r\n" + strings.Repeat("x", 20000)

// handlers are each sent get, getOld, getKeep, head, post, upload, expect and chunked.
var handlers = map[string]http.HandlerFunc{
	"nothing":     func(http.ResponseWriter, *http.Request) {},
	"small":       write("hello"),
	"empty write": write(""),
	"exact read": func(w http.ResponseWriter, r *http.Request) {
		n, err := r.Body.Read(make([]byte, len("hello")))
		fmt.Fprint(w, n, err)
	},
	"html":           write("<html><body>"),
	"many writes":    manyWrites,
	"2048 bytes":     write(zeroBytes(2048)),
	"2049 bytes":     write(zeroBytes(2049)),
	"large":          write(zeroBytes(30000)),
	"small, large":   inTurn(write("<p>"), write(zeroBytes(30000))),
	"recipe A":       recipeA,
	"length":         withHeader("Content-Length", "5", "hello"),
	"length, short":  withHeader("Content-Length", "9", "hello"),
	"length, long":   withHeader("Content-Length", "3", "hello"),
	"length, bad":    withHeader("Content-Length", "x", "hello"),
	"length, none":   withHeader("Content-Length", "7", ""),
	"large length":   withHeader("Content-Length", "30000", strings.Repeat("x", 30000)),
	"own type":       withHeader("Content-Type", "a/b", "hello"),
	"encoded":        withHeader("Content-Encoding", "gzip", "hello"),
	"own date":       withHeader("Date", "today", "hello"),
	"close":          withHeader("Connection", "close", "hello"),
	"keep-alive":     withHeader("Connection", "keep-alive", "hello"),
	"own connection": withHeader("Connection", "Upgrade", "hello"),
	"close in list":  withHeader("Connection", "foo, close", "hello"),
	"chunked":        withHeader("Transfer-Encoding", "chunked", "hello"),
	"identity":       withHeader("Transfer-Encoding", "identity", "hello"),
	"line in field":  withHeader("X", " a\r\nY: b\n", "hello"),
	"no type":        withFields(http.Header{"Content-Type": nil}, "hello"),
	"no length":      withFields(http.Header{"Content-Length": nil}, "hello"),
	"no trailer":     withFields(http.Header{"Trailer": nil}, "hello"),
	"bad name":       withFields(http.Header{"a b": {"c"}}, "hello"),
	"repeated":       withFields(http.Header{"A": {"1", "2"}, "B": {"3"}}, ""),
	"204":            withStatus(204, ""),
	"204 with body":  withStatus(204, "hello"),
	"304":            withStatus(304, ""),
	"404 twice":      inTurn(http.NotFound, http.NotFound),
	"599":            withStatus(599, "hello"),
	"redirect":       func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) },
	"304 with all":   inTurn(setAll, status(304)),
	"304 with type":  inTurn(field("Content-Type", "a/b"), status(304)),
	"204 with all":   inTurn(setAll, status(204)),
	"status twice":   inTurn(status(201), status(202)),
	"late field":     inTurn(status(201), field("Late", "x")),
	"late length":    inTurn(write("hello"), field("Content-Length", "3")),
	"changed value":  inTurn(field("A", "1"), status(200), change("A", "2")),
	"flush":          flush,
	"write, flush":   inTurn(write("he"), flush, write("llo")),
	"early hints": inTurn(setAll, field("Date", "today"), field("Trailer", "Sum"), func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 { // net/http sends it by HTTP/2
			w.Header().Set("Connection", "close")
		}
	}, status(103), status(103), func(w http.ResponseWriter, _ *http.Request) { clear(w.Header()) }, write("hello"),
		field("Sum", "1")),
	"panic":                 panics,
	"panic, written":        inTurn(write("hello"), panics),
	"panic, flushed":        inTurn(write("hello"), flush, panics),
	"panic, large":          inTurn(copyLarge, panics),
	"panic, length":         inTurn(field("Content-Length", "9"), write("hello"), panics),
	"panic, large length":   inTurn(field("Content-Length", "40000"), copyLarge, panics),
	"panic, flushed length": inTurn(field("Content-Length", "9"), write("hello"), flush, panics),
	"panic, flushed pieces": inTurn(manyWrites, flush, panics),
	"abort":                 func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"read all":              readBody,
	"read some": func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 2)
		n, err := io.ReadFull(r.Body, b)
		fmt.Fprint(w, n, err)
	},
	"close body": func(w http.ResponseWriter, r *http.Request) {
		r.Body.Close()
		_, err := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, err)
	},
	"read nothing": func(w http.ResponseWriter, r *http.Request) {
		n, err := r.Body.Read(nil)
		fmt.Fprint(w, n, err)
	},
	"write, read": inTurn(write("hello "), readBody),
	"length, write, read": inTurn(field("Content-Length", "7"), write("a "), func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	}),
	"length, pieces":         inTurn(field("Content-Length", "7"), write("<ht"), write("ml>a")),
	"error, close body":      inTurn(status(http.StatusForbidden), closeBody),
	"flush, read":            thenRead(flush),
	"read some, flush, read": thenRead(readBytes(2), flush),
	"large, read":            thenRead(write(zeroBytes(20_000))),
	"duplex, flush, read":    thenRead(duplex, flush),
	"echo": func(w http.ResponseWriter, r *http.Request) {
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r.Body}, make([]byte, 1000))
		fmt.Fprint(w, err)
	},
	"copy":         func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, strings.NewReader("hello")) },
	"copy large":   copyLarge,
	"copy, length": inTurn(field("Content-Length", "30000"), copyLarge),
	"content": func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", time.Unix(1e9, 0), strings.NewReader("hello"))
	},
	"trailer": inTurn(field("Trailer", "Sum, other"), write("hello"), field("Sum", "1")),
	"changed trailer": inTurn(field("Trailer", "Sum"), write("hello"), flush, change("Trailer", "Other"), field("Sum", "1"),
		field("Other", "2")),
	"late trailer":          inTurn(write("hello"), flush, field(http.TrailerPrefix+"Sum", "1")),
	"prefix trailer":        inTurn(field(http.TrailerPrefix+"Sum", "1"), write("hello")),
	"small, prefix trailer": inTurn(write("hello"), field(http.TrailerPrefix+"Sum", "1")),
	"timeout":               tooSlow,
	"interfaces":            inTurn(readBytes(20_000), writeInterfaces),
	"max bytes":             http.MaxBytesHandler(http.HandlerFunc(dump), 3).ServeHTTP,
	"hijack":                hijack,
	"write, hijack":         inTurn(write("hello"), hijack),
	"close body, hijack": func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") == "" { // else net/http before Go 1.27 waits for the body
			r.Body.Close()
		}
		hijack(w, r)
	},
}

func inTurn(steps ...http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, step := range steps {
			step(w, r)
		}
	}
}

func write(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

func field(name, value string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Header()[name] = []string{value} }
}

func change(name, value string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Header()[name][0] = value }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func readBytes(n int) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) { io.ReadFull(r.Body, make([]byte, n)) }
}

func readBody(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%q %v", b, err)
}

var manyWrites = inTurn(slices.Repeat([]http.HandlerFunc{write("0123456789")}, 1000)...)

func copyLarge(w http.ResponseWriter, _ *http.Request) {
	io.Copy(w, struct{ io.Reader }{strings.NewReader(zeroBytes(30000))})
}

func zeroBytes(n int) string { return strings.Repeat("\x00", n) }

func closeBody(_ http.ResponseWriter, r *http.Request) { r.Body.Close() }
func flush(w http.ResponseWriter, _ *http.Request)     { w.(http.Flusher).Flush() }
func panics(http.ResponseWriter, *http.Request)        { panic("ouch") }
func duplex(w http.ResponseWriter, _ *http.Request) {
	http.NewResponseController(w).EnableFullDuplex()
}

// thenRead returns a handler that reads on after it has begun to respond. If its body was drained,
// it receives an error and not the end of the body.
func thenRead(begin ...http.HandlerFunc) http.HandlerFunc {
	return inTurn(field("Content-Type", "a/b"), inTurn(begin...), func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})
}

// tooSlow runs until well after its timeout. If it returned exactly at its timeout, either result
// would be possible.
func tooSlow(w http.ResponseWriter, r *http.Request) {
	responded := make(chan struct{})
	defer close(responded)
	http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-responded }), time.Millisecond,
		"slow").ServeHTTP(w, r)
}

func recipeA(w http.ResponseWriter, _ *http.Request) {
	body := "Hello World\n"
	w.Header().Set("Server", "gophr")
	w.Header().Set("Connection", "keep-alive")
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	fmt.Fprint(w, body)
}

func withHeader(name, value, body string) http.HandlerFunc {
	return inTurn(field(name, value), write(body))
}

func withFields(fields http.Header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), fields)
		io.WriteString(w, body)
	}
}

func withStatus(code int, body string) http.HandlerFunc { return inTurn(status(code), write(body)) }

func setAll(w http.ResponseWriter, _ *http.Request) {
	for _, name := range []string{"Content-Type", "ETag", "X"} {
		w.Header().Set(name, "x/y")
	}
	w.Header().Set("Content-Length", "5")
	w.Header().Set("Transfer-Encoding", "chunked")
}

func hijack(w http.ResponseWriter, _ *http.Request) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, err = w.Write([]byte("x"))
	fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n%v", errors.Is(err, http.ErrHijacked))
	rest, _ := rw.Peek(rw.Reader.Buffered())
	fmt.Fprintf(rw, "rest %q", rest)
	rw.Flush()
}

func TestResponsesEqualThoseOfNetHTTP(t *testing.T) {
	for name, h := range handlers {
		for kind, pieces := range map[string][]string{
			"get":     {get + get},
			"1.0":     {getOld},
			"1.0keep": {getKeep, getKeep},
			"head":    {head, head},
			"post":    {post, get},
			"upload":  {upload, get},
			"expect":  {expect, "hello" + get},
			"chunked": {chunked + get},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				skipChanged(t, name+"/"+kind)
				same(t, cmp.Or(deliberate[name], deliberate[name+"/"+kind]), h, pieces)
			})
		}
	}
}

// deliberate are the cases, by name or by name and kind, that differ, and what the package
// documentation states about them. Each must still differ.
var deliberate = map[string]string{
	"body cut off":        "A response to a request with an incomplete body has Connection: close.",
	"early hints/1.0":     "HTTP/1.0 clients get no interim responses",
	"early hints/1.0keep": "HTTP/1.0 clients get no interim responses",
	"max bytes/post":      maxBytesRule,
	"max bytes/upload":    maxBytesRule,
	"max bytes/chunked":   maxBytesRule,
	"write, hijack":       "Hijack sends what the handler has written.",
	"close in list/get":   closeRule, "close in list/1.0keep": closeRule, "close in list/head": closeRule,
	"close in list/post": closeRule, "close in list/upload": closeRule, "close in list/chunked": closeRule,
	"small, prefix trailer/get": trailerRule, "small, prefix trailer/head": trailerRule,
	"small, prefix trailer/post": trailerRule, "small, prefix trailer/expect": trailerRule,
	"small, prefix trailer/upload": trailerRule, "small, prefix trailer/chunked": trailerRule,
	"length, bad": "A Content-Length that a handler sets is dropped if it is not a number",
}

const (
	maxBytesRule = "If MaxBytesReader has stopped the handler's Read, the remainder is read, if it is small, and " +
		"the connection is kept."
	closeRule   = "A connection is closed if any element of a handler's Connection field is close"
	trailerRule = "Trailer fields that a handler sets with TrailerPrefix after the head are also sent"
)

// changed are the cases in which net/http has changed, by the first releases with what holds here.
var changed = map[string][]string{
	"connect":            connectReleases,
	"connect path":       connectReleases,
	"connect no host":    connectReleases,
	"write, read/expect": {"go1.27"},
	"close body/expect":  {"go1.27"},

	"length, write, read/expect": {"go1.27"},
	"flush, read/expect":         {"go1.27"},
	"large, read/expect":         {"go1.27"},
	"duplex, flush, read/expect": {"go1.27"},
	"error, close body/expect":   {"go1.27"},
}

// connectReleases are the first that close the connection after CONNECT.
var connectReleases = []string{"go1.26.9", "go1.27.2"}

func skipChanged(t *testing.T, name string) {
	t.Helper()
	if first := changed[name]; first != nil && testkit.NetHTTPPrecedes(first...) {
		t.Skip("as in net/http since ", first)
	}
}

func TestDifferencesAreDocumented(t *testing.T) {
	mustBeDocumented(t, "../../doc.go", deliberate)
	mustBeDocumented(t, "../../doc.go", http2Otherwise)
	mustBeDocumented(t, "../../fcgi/doc.go", otherwiseThanStd)
	mustBeDocumented(t, "../../fcgi/doc.go", map[string]string{"rejected requests": refusals})
}

func mustBeDocumented(t *testing.T, file string, differences map[string]string) {
	t.Helper()
	b := testkit.Value(os.ReadFile(file))(t)
	doc := strings.Join(strings.Fields(strings.ReplaceAll(string(b), "\n//", "\n")), " ")
	for name, why := range differences {
		if !strings.HasPrefix(why, "detail: ") && !strings.Contains(doc, why) {
			t.Errorf("%s does not say of %q: %s", file, name, why)
		}
	}
}
