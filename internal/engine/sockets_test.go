package engine_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// varying matches what dump shows of addresses, of lengths that depend on them, and of whether it ran
// before the client closed its side.
var varying = regexp.MustCompile(`127\.0\.0\.1:\d+|context (<nil>|context canceled)|` +
	`length=[3-9]\d\d\b|Content-Length: \["[3-9]\d\d"\]`)

// overSockets is transcript for a site, in real time. The pieces arrive in any way, then the client
// closes its sending side, and everything that comes back is described.
func (s *site) overSockets(pieces []string) string {
	s.Helper()
	before, c := len(s.logged.String()), s.connect()
	defer c.Close()
	if c, ok := c.(*tls.Conn); ok { // CloseWrite fails before the handshake
		testkit.Must(s, c.Handshake())
	}
	sent := make(chan bool)
	go func() {
		defer close(sent)
		for _, p := range pieces {
			if p != closeWrite {
				io.WriteString(c, p)
				time.Sleep(time.Millisecond)
			}
		}
		closeWriteOf(c)
	}()
	response := readAllOf(s.T, c)
	<-sent
	text := describe([]byte(response), true, strings.Contains(strings.Join(pieces, ""), "HEAD ")) +
		describeLog(s.logged.String()[before:])
	return varying.ReplaceAllString(text, "...")
}

// What clients and handlers observe does not depend on the path, so that other tests of the
// goroutine path also hold for shards.
func TestBothPathsGiveSameResponses(t *testing.T) {
	t.Parallel()
	var handler atomic.Pointer[http.HandlerFunc] // of the current case
	sites := make(map[string]*site)
	for _, mode := range []string{"net.Conn", "tcp", "tls", "ServeTLS"} {
		sites[mode] = siteOf(t, "tare", mode, &http.Server{Handler: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { (*handler.Load())(w, r) })})
	}
	check := func(t *testing.T, h http.HandlerFunc, pieces []string, overTLS bool) {
		handler.Store(&h)
		for portable, shards := range map[string]string{"net.Conn": "tcp", "tls": "ServeTLS"} {
			if portable != "tls" || overTLS {
				testkit.Equal(t, sites[shards].in(t).overSockets(pieces), sites[portable].in(t).overSockets(pieces), pieces,
					"on shards, compared with", portable)
			}
		}
	}
	for name, pieces := range requests {
		t.Run(name, func(t *testing.T) { check(t, dump, pieces, true) })
	}
	for name, h := range handlers {
		for kind, pieces := range map[string][]string{
			"get": {get + get}, "1.0keep": {getKeep, getKeep}, "post": {post, get}, "upload": {upload, get},
		} {
			if name == "timeout" || strings.Contains(name, "hijack") && len(pieces) > 1 {
				continue // their responses depend on the client's timing
			}
			t.Run(name+"/"+kind, func(t *testing.T) { check(t, h, pieces, kind == "upload") })
		}
	}
}

// readResponses reads until n responses have ended.
func readResponses(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	var got []byte
	b := make([]byte, 64<<10)
	for bytes.Count(got, []byte("HTTP/1.1 ")) < n || !bytes.HasSuffix(got, []byte(".")) {
		m, err := c.Read(b)
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, b[:m]...)
	}
	return string(got)
}

func (s *site) request(c net.Conn, path string) string {
	s.Helper()
	io.WriteString(c, target(path))
	return readResponses(s.T, c, 1)
}

// A client that pipelines may need the first response before it allows the handler of the second
// request to continue.
func TestPipelinedResponsesAreNotHeldBack(t *testing.T) {
	release := make(chan bool)
	someModes(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "second" {
			<-release
		}
		io.WriteString(w, r.URL.RawQuery+".")
	}), func(s *site) {
		for _, before := range []int{0, 1, 10, 200} { // in debt at first, later on the loop
			c := s.connect()
			for range before {
				s.request(c, "/?x")
			}
			io.WriteString(c, target("/?first")+target("/?second")+target("/?third"))
			testkit.Contains(s, readResponses(s.T, c, 1), "first.")
			release <- true
			got := readResponses(s.T, c, 2)
			testkit.Contains(s, got, "second.")
			testkit.Contains(s, got, "third.")
			c.Close()
		}
	}, "tcp", "ServeTLS")
}

// Dispatch selects where handlers run. Predicted depends on timing, which the predictor's own test
// covers.
func TestDispatchSelectsWhereHandlersRun(t *testing.T) {
	for dispatch, want := range map[engine.Dispatch]string{engine.OnLoop: "true.", engine.OwnGoroutine: "false."} {
		someServers(t, handle(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, testkit.RunsIn(".serveAsLeader("), ".")
		}), func(s *engine.Server, _ *http.Server) { s.Dispatch = dispatch }, func(s *site) {
			c, inRow := s.connect(), 0
			// a loop that got no processor has lost the lead, and its goroutine runs the handler
			testkit.WaitFor(s, "handlers to run where they should", func() bool {
				if inRow++; !strings.HasSuffix(s.request(c, "/"), "\r\n\r\n"+want) {
					inRow = 0
				}
				return dispatch == engine.OnLoop && inRow > 0 || inRow == 100
			})
		}, "tcp")
	}
}

// FuzzSameAsNetHTTP sends any bytes to net/http and to this engine, with one handler. Up to the
// point where this engine rejects the input, and net/http may be more lenient, both must send the
// same.
func FuzzSameAsNetHTTP(f *testing.F) {
	addRequests(f)
	f.Fuzz(func(t *testing.T, in string) {
		if len(in) > 1<<10 {
			return
		}
		pieces := []string{in, closeWrite} // net/http rejects some heads before they are complete
		handler := http.HandlerFunc(dump)
		ours := transcript(t, makers["tare"], &http.Server{Handler: handler}, pieces)
		theirs := transcript(t, makers["net/http"], &http.Server{Handler: handler}, pieces)
		if ours == theirs || excused(in, ours, theirs) {
			return
		}
		t.Errorf("request %q\n--- net/http\n%s--- tare\n%s", in, theirs, ours)
	})
}

func joined(pieces []string) string {
	return strings.ReplaceAll(strings.Join(pieces, ""), closeWrite, "")
}

// addRequests adds the raw requests of the tests, except the large ones.
func addRequests(f *testing.F) {
	for _, pieces := range requests {
		f.Add(joined(pieces))
	}
	for _, a := range heads {
		f.Add(a.text + smuggled)
	}
	for _, a := range chunks {
		f.Add(chunkedPost + a.text + smuggled)
	}
	for _, text := range hiddenIn {
		f.Add(text + get)
	}
	for _, text := range []string{testkit.BrowserGET(), "0 * HTTP/1.0\r\nConnection: keep-alive 0\r\n\r\n",
		"\n0 * HTTP/1.0\nX:\n\n", "\n0 0 HTTP/1.1\r\n\n",
		"0 * HTTP/1.1\r\nHost:\r\nContent-Length:1\r\n\r\n0\n0 * HTTP/1.0\r\n\r\n", head + get + getKeep} {
		f.Add(text)
	}
}

// FuzzBothPaths sends any bytes over sockets to both paths. Their responses must not differ at all.
func FuzzBothPaths(f *testing.F) {
	addRequests(f)
	f.Fuzz(func(t *testing.T, in string) {
		if len(in) > 1<<10 {
			return
		}
		over := func(mode string) string {
			return siteOf(t, "tare", mode, handle(dumpCalmly)()).overSockets([]string{in})
		}
		testkit.Equal(t, over("tcp"), over("net.Conn"), "on shards, compared with the goroutine path")
	})
}

// excused reports whether two transcripts differ only in permitted ways.
func excused(in, ours, theirs string) bool {
	for r := bufio.NewReader(strings.NewReader(in)); ; {
		if b, _ := r.Peek(2); bytes.HasPrefix(bytes.TrimPrefix(b, []byte("\r")), []byte("\n")) {
			return true // an empty line before a request, which net/http skips only after a POST
		}
		before, err := http.ReadRequest(r)
		if err != nil {
			break
		}
		io.Copy(io.Discard, before.Body)
	}
	if lower := strings.ToLower(in); strings.Contains(lower, "http/1.0") && strings.Contains(lower, "keep-alive") {
		return true // net/http parses any word of Connection as a token, for example "keep-alive 0"
	}
	open := strings.NewReplacer("close=true", "close=false", "closed=true\n", "", "closed=false\n", "")
	switch theirs, ours := open.Replace(theirs), open.Replace(ours); {
	case strings.Contains(in, "CONNECT ") && testkit.NetHTTPPrecedes(connectReleases...) &&
		theirs[:min(len("HTTP/1.1 200"), len(theirs))] == ours[:min(len("HTTP/1.1 200"), len(ours))]:
		return true
	case (strings.Contains(in, "OPTIONS * ") || strings.Contains(in, "HEAD ")) && theirs == ours:
		return true // the body is incomplete, and the response does not show it
	}
	refusal := regexp.MustCompile(`HTTP/1\.1 (400|414|417|431|501|505)`).FindStringIndex(ours)
	if refusal != nil && strings.HasPrefix(theirs, ours[:refusal[0]]) {
		return true
	}
	// A malformed body: its handler ran, and the error texts differ.
	return strings.Contains(ours, "http1: ") || strings.Contains(ours, "unexpected EOF")
}

// dumpCalmly is dump without what depends on when the client closes its side.
func dumpCalmly(w http.ResponseWriter, r *http.Request) {
	all := httptest.NewRecorder()
	dump(all, r)
	text, _, _ := strings.Cut(all.Body.String(), "context ")
	io.WriteString(w, text)
}
