package engine_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// sized returns a POST with CONTENT_LENGTH n, whatever follows.
func sized(n int) string {
	return fcgiRequest{method: "POST", params: []string{"CONTENT_LENGTH", fmt.Sprint(n)}}.head()
}

// stderrOf returns a request's error stream.
func stderrOf(w http.ResponseWriter) io.Writer {
	return w.(interface{ Stderr() io.Writer }).Stderr()
}

func writeError(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(stderrOf(w), text) }
}

// What a handler writes to the error stream arrives there at any time, and never in the body.
func TestFCGIStderrIsSeparateFromBody(t *testing.T) {
	large := strings.Repeat("large ", 30_000)
	var kept http.ResponseWriter
	var mu sync.Mutex
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		errs := stderrOf(w)
		switch r.URL.Path {
		case "/between":
			inTurn(writeError("before,"), write("one "), writeError("between,"), flush, writeError("flushed,"),
				write("two"), writeError("after"))(w, r)
		case "/alone":
			writeError("alone")(w, r)
		case "/large":
			n, err := io.WriteString(errs, large)
			fmt.Fprint(w, n, err)
		case "/many":
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 500 {
						io.WriteString(errs, "x")
						io.WriteString(w, "y")
					}
				})
			}
			wg.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		kept = w
	}), func(s *fcgiSite) {
		for _, want := range []struct{ method, path, body, stderr string }{
			{"GET", "/between", "one two", "before,between,flushed,after"},
			{"HEAD", "/between", "", "before,between,flushed,after"},
			{"GET", "/alone", "", "alone"},
			{"GET", "/large", fmt.Sprint(len(large), " <nil>"), large},
			{"GET", "/many", strings.Repeat("y", 2000), strings.Repeat("x", 2000)},
			{"GET", "/none", "", ""},
		} {
			p := s.peer()
			a := p.roundTrip(fcgiRequest{method: want.method, uri: want.path}.String())
			testkit.Equal(s, a.body, want.body, want.method, want.path)
			testkit.Equal(s, string(a.stderr), want.stderr, want.method, want.path)
			mu.Lock()
			testkit.Fails(io.WriteString(stderrOf(kept), "late"))(s, "", "writing after the handler has returned")
			mu.Unlock()
			a = p.roundTrip(aGET("/none"))
			testkit.Equal(s, a.body+string(a.stderr), "", "the next response")
			p.Close()
		}
	})
}

// An aborted handler ends its connection and affects nothing else. Earlier responses are not lost.
func TestFCGIAbortedHandlerEndsOnlyItsConnection(t *testing.T) {
	variants := map[string]http.HandlerFunc{
		"written": inTurn(write("x"), panics),
		"flushed": inTurn(flush, panics),
		"read":    inTurn(readBytes(2), handlers["abort"]),

		"flushed head": inTurn(writeError("x"), panics),
	}
	for name, end := range endings {
		variants[name] = func(http.ResponseWriter, *http.Request) { end() }
	}
	pick := handle(func(w http.ResponseWriter, r *http.Request) {
		if bad, ok := variants[r.Header.Get("X-Pick")]; ok {
			bad(w, r)
		}
		io.WriteString(w, r.URL.Path)
	})
	everyFCGIMode(t, pick, func(s *fcgiSite) {
		other := s.peer()
		other.roundTrip(aGET("/other"))
		for name := range variants {
			for _, rest := range []string{
				rec(stdinStream, 1, ""), inRecords(stdinStream, 1, 9, "12345"), rec(stdinStream, 1, "1234"),
				rec(stdinStream, 1, "1") + question + inRecords(stdinStream, 1, 9, "2345"),
			} {
				p := s.peer()
				p.send(aGET("/before") + fcgiRequest{method: "POST", params: []string{"HTTP_X_PICK", name}}.head() +
					rest)
				if a, err := p.tryReadResponse(); err != nil || a.body != "/before" {
					s.Errorf("before %s: %v, %v", name, a, err)
				}
				if a, err := p.tryReadResponse(); err == nil {
					s.Errorf("%s: %v", name, a)
				}
				p.Close()
			}
			testkit.Equal(s, other.roundTrip(aGET("/after")).body, "/after", name)
			testkit.Equal(s, len(other.management), 0, name)
		}
		text := s.logged.String()
		testkit.Contains(s, text, "panic serving")
		testkit.Contains(s, text, "ouch")
		testkit.Equal(s, strings.Count(text, http.ErrAbortHandler.Error()), 0, "log lines of ErrAbortHandler")
	})
}

const wait = "/wait"

var (
	abort    = rec(abortRequest, 1, "")
	question = rec(getValues, 0, nameValues("FCGI_MPXS_CONNS", ""))
)

// abortions are ways for ABORT_REQUEST to arrive.
var abortions = map[string]struct {
	with   string // in the request's own packet
	before string // after it, before the handler uses its context
	after  []string
}{
	"before it is used":            {before: abort},
	"in the request's packet":      {with: abort},
	"begun with the request":       {with: abort[:3], after: []string{abort[3:]}},
	"behind a question, in pieces": {after: strings.SplitAfter(question+abort, "")},
	"both in the packet":           {with: question + abort},
	"behind part of a question":    {with: question[:12], after: []string{question[12:] + abort}},
	"behind others' records": {before: rec(stdinStream, 2, strings.Repeat("\x01", 100)),
		after: []string{padded(stdinStream, 2, "", 50) + abort}},
	"behind the next one, in pieces": {with: aGET("/next")[:20],
		after: []string{aGET("/next")[20:], abort[:2], abort[2:]}},
}

// ABORT_REQUEST cancels the request's context, whenever it arrives. The connection is kept, and
// what came with it gets its responses.
func TestFCGIAbortCancelsContext(t *testing.T) {
	entered, proceed, waits := make(chan bool, 1), make(chan bool, 1), make(chan bool, 1)
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wait {
			readsAtPath(w, r)
			return
		}
		ctx := r.Context()
		switch r.URL.RawQuery {
		case "used":
			_ = ctx.Err()
			fallthrough
		case "read":
			io.Copy(io.Discard, r.Body)
		}
		entered <- true
		<-proceed
		done := ctx.Done()
		waits <- true
		<-done
		fmt.Fprint(w, ctx.Err())
	}), func(s *fcgiSite) {
		for kind, request := range map[string]string{
			"GET": aGET(wait), "POST": fcgiRequest{uri: wait + "?read", body: "hello", length: true}.String(),
			"used before": fcgiRequest{uri: wait + "?used", body: "hello"}.String(),
		} {
			for name, variant := range abortions {
				s.Run(kind+"/"+name, func(t *testing.T) {
					p := s.in(t).peer()
					defer p.Close()
					io.WriteString(p, request+variant.with)
					<-entered
					io.WriteString(p, variant.before)
					proceed <- true
					<-waits
					for _, piece := range variant.after {
						io.WriteString(p, piece)
					}
					testkit.Equal(t, p.readResponse().body, context.Canceled.Error())
					all := variant.with + variant.before + strings.Join(variant.after, "")
					if strings.Contains(all, "/next") {
						testkit.Equal(t, p.readResponse().body, "/next <nil>")
					}
					testkit.Equal(t, p.roundTrip(aPOST("x")).body, "/ x<nil>")
					testkit.Equal(t, len(p.management), strings.Count(all, "MPXS"), "replies")
				})
			}
		}
	})
}

func fcgiSilences() []silence {
	const second = time.Second
	begin, list := begins(1, true), rec(paramsStream, 1, nameValues(fcgiRequest{}.list()...))
	body := sized(9) + rec(stdinStream, 1, "ab")
	return append(silences(aGET("/"), []string{begin, list[:20], list[20:40]}, body, rec(stdinStream, 1, "c")), []silence{
		{"default: part of a header", &http.Server{}, []string{begin[:1], begin[1:2], begin[2:3]}, 27 * second},
		{"default: no body", &http.Server{}, []string{fcgiRequest{}.head()}, 29 * second},
		{"default: records of others", &http.Server{},
			[]string{rec(stdinStream, 7, "x"), rec(dataStream, 7, "x"), rec(stdinStream, 7, "")}, 27 * second},
		{"default: questions", &http.Server{}, []string{question, question, question}, 27 * second},
		{"default: aborted", &http.Server{}, []string{begin, abort, begin}, 27 * second},
		{"no bound on bodies", &http.Server{}, []string{body}, -1},
	}...)
}

// WriteTimeout also ends a connection whose peer sends GET_VALUES and does not read the replies,
// even if they are sent one by one.
func TestFCGIWriteTimeoutAppliesToReplies(t *testing.T) {
	settings := &http.Server{WriteTimeout: 5 * time.Second, ReadHeaderTimeout: time.Hour,
		Handler: http.HandlerFunc(dump)}
	inBubble(t, fcgiServer, settings, func(t *testing.T, _ server, c *testkit.MemConn) {
		start := time.Now()
		for text := strings.Repeat(question, 1000); ; {
			if _, err := io.WriteString(c, text); err != nil {
				break
			}
		}
		testkit.Between(t, time.Since(start), 5*time.Second, 6*time.Second, "until the connection is closed")
	})
}
