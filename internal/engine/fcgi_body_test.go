package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// sized returns a POST with CONTENT_LENGTH n, whatever follows.
func sized(n int) string {
	return fcgiRequest{method: "POST", params: []string{"CONTENT_LENGTH", fmt.Sprint(n)}}.head()
}

// fcgiBodies are requests, what their handler reads, and whether the connection is closed after it.
var fcgiBodies = map[string]struct {
	request, want string
	closed        bool
}{
	"one record":   {aPOST("hello"), `5 false "hello" <nil>`, false},
	"many records": {sized(9) + inRecords(stdinStream, 1, 2, "123456789"), `9 false "123456789" <nil>`, false},
	"byte by byte": {sized(9) + inRecords(stdinStream, 1, 1, "123456789"), `9 false "123456789" <nil>`, false},
	"padding": {sized(3) + padded(stdinStream, 1, "12", 255) + padded(stdinStream, 1, "3", 1) +
		padded(stdinStream, 1, "", 7), `3 false "123" <nil>`, false},
	"no length": {fcgiRequest{method: "POST", body: "hello"}.String(), `-1 false "hello" <nil>`, false},
	"empty length": {fcgiRequest{method: "POST", body: "hello", params: []string{"CONTENT_LENGTH", ""}}.String(),
		`-1 false "hello" <nil>`, false},
	"no body":         {fcgiRequest{method: "POST"}.String(), `0 true "" <nil>`, false},
	"no body, length": {fcgiRequest{method: "POST", length: true}.String(), `0 true "" <nil>`, false},
	"of a GET":        {fcgiRequest{body: "hello", length: true}.String(), `5 false "hello" <nil>`, false},
	"a full record": {aPOST(strings.Repeat("x", largestContent)),
		fmt.Sprintf("%d false %q <nil>", largestContent, shorten(bytes.Repeat([]byte("x"), largestContent))), false},
	"more than a record": {aPOST(strings.Repeat("x", largestContent+1)),
		fmt.Sprintf("%d false %q <nil>", largestContent+1, shorten(bytes.Repeat([]byte("x"), largestContent+1))),
		false},
	"others' records": {sized(4) + rec(stdinStream, 1, "12") + rec(stdinStream, 2, "xx") +
		rec(stdinStream, 2, "") + rec(abortRequest, 2, "") + inRecords(stdinStream, 1, 9, "34"),
		`4 false "1234" <nil>`, false},
	"data records": {sized(4) + rec(stdinStream, 1, "12") + rec(dataStream, 1, "xx") +
		rec(dataStream, 1, "") + inRecords(stdinStream, 1, 9, "34"), `4 false "1234" <nil>`, false},
	"an application's": {sized(4) + rec(stdinStream, 1, "12") +
		rec(endRequest, 1, "\x00\x00\x00\x00\x00\x00\x00\x00") + rec(stdoutStream, 1, "xx") +
		rec(stderrStream, 1, "xx") + inRecords(stdinStream, 1, 9, "34"), `4 false "1234" <nil>`, false},
	"records before it": {sized(2) + rec(getValues, 0, "") + rec(stdinStream, 9, "xx") +
		inRecords(stdinStream, 1, 9, "12"), `2 false "12" <nil>`, false},
	"shorter":              {sized(5) + inRecords(stdinStream, 1, 9, "1234"), `5 false "1234" unexpected EOF`, true},
	"shorter, none at all": {sized(5) + rec(stdinStream, 1, ""), `5 false "" unexpected EOF`, true},
	"longer": {sized(5) + inRecords(stdinStream, 1, 9, "123456"),
		`5 false "12345" <nil>`, false},
	"longer, by a record": {sized(5) + inRecords(stdinStream, 1, 5, "1234567890"),
		`5 false "12345" <nil>`, false},
	"longer than nothing": {sized(0) + inRecords(stdinStream, 1, 5, "1"),
		`0 true "" <nil>`, false},
	"begun again": {sized(4) + rec(stdinStream, 1, "12") + begins(1, true),
		`4 false "12" fcgi: repeated BEGIN_REQUEST for an active request`, true},
	"no record": {sized(4) + rec(stdinStream, 1, "12") + "HTTP/1.1",
		`4 false "12" fcgi: unsupported FastCGI version`, true},
}

// A body is the content of STDIN, in any records. If it does not match CONTENT_LENGTH, Read returns
// an error.
func TestFCGIBodyMatchesStdin(t *testing.T) {
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %q %v", r.ContentLength, r.Body == http.NoBody, shorten(b), err)
	}), func(s *fcgiSite) {
		for name, test := range fcgiBodies {
			s.Run(name, func(t *testing.T) {
				p := s.in(t).peer()
				defer p.Close()
				if a := p.roundTrip(test.request); !strings.HasPrefix(a.body, test.want) {
					t.Errorf("got %s, want %s", a.body, test.want)
				}
				if test.closed {
					p.mustClose()
				} else if a := p.roundTrip(aPOST("next")); a.body != `4 false "next" <nil>` {
					t.Errorf("then %s", a.body)
				}
			})
		}
	})
}

// The end of STDIN may arrive behind the whole body, when the server has sent the last response. A
// reset would discard what the client has not read.
func TestFCGILateEndOfStdinLosesNoResponse(t *testing.T) {
	const size = 2 << 20
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		io.WriteString(w, strings.Repeat("x", size))
	}), func(s *fcgiSite) {
		for _, late := range []string{rec(stdinStream, 1, ""), inRecords(stdinStream, 1, 9, "more")} {
			p := s.peer()
			head := fcgiRequest{method: "POST", once: true, params: []string{"CONTENT_LENGTH", "5"}}.head()
			io.WriteString(p, head+rec(stdinStream, 1, "hello"))
			kind, id, content, err := p.record()
			if err == nil {
				_, err = p.take(kind, id, content)
			}
			if err != nil {
				s.Fatal(err)
			}
			io.WriteString(p, late)
			if a := p.readResponse(); len(a.body) != size {
				s.Errorf("got %d bytes", len(a.body))
			}
			p.Close()
		}
	})
}

// What follows a whole body is dropped, but not for ever.
func TestFCGIExcessOfBodyIsLimited(t *testing.T) {
	everyFCGIMode(t, handle(func(http.ResponseWriter, *http.Request) {}), func(s *fcgiSite) {
		p := s.peer()
		head := fcgiRequest{method: "POST", params: []string{"CONTENT_LENGTH", "1"}}.head()
		io.WriteString(p, head+rec(stdinStream, 1, "x"))
		p.readResponse()
		go io.WriteString(p, strings.Repeat(rec(stdinStream, 1, strings.Repeat("x", 1<<15)), 40))
		if kind, _, _, err := p.record(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			s.Errorf("a record of type %d, %v; want the end", kind, err)
		}
	})
}

// hiddenInRecords are bodies that look like other requests.
var hiddenInRecords = map[string]string{
	"small":           aGET("/smuggled"),
	"several records": strings.Repeat("x", 2*largestContent) + aGET("/smuggled"),
	"large":           strings.Repeat("x", 300<<10) + aGET("/smuggled"),
}

// The remainder of a body is not parsed as a request, and the next request is served.
func TestFCGIUnreadBodyIsNoRequest(t *testing.T) {
	var smuggled atomic.Int32
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			leaveBody[r.Header.Get("X-Leave")](w, r)
		case "/smuggled":
			smuggled.Add(1)
		default:
			io.WriteString(w, r.URL.Path)
		}
	}), func(s *fcgiSite) {
		for kind, hidden := range hiddenInRecords {
			for name := range leaveBody {
				s.Run(kind+"/"+name, func(t *testing.T) {
					p := s.in(t).peer()
					defer p.Close()
					sent := p.send(fcgiRequest{method: "POST", body: hidden, length: true,
						params: []string{"HTTP_X_LEAVE", name}}.String() + aGET("/next"))
					a, err := p.tryReadResponse()
					if (err != nil) != (name == "panic") {
						t.Errorf("%+v, %v", a, err)
					}
					a, err = p.tryReadResponse()
					switch {
					case name == "panic" && err != nil:
					case err != nil || a.body != "/next":
						t.Errorf("then %+v, %v", a, err)
					}
					p.Close()
					<-sent
					if n := smuggled.Swap(0); n > 0 {
						t.Errorf("%d requests out of a body", n)
					}
				})
			}
		}
	})
}
