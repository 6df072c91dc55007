package engine_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
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

func stderrOf(w http.ResponseWriter) io.Writer {
	return w.(interface{ Stderr() io.Writer }).Stderr()
}

func writeError(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(stderrOf(w), text) }
}

// What a handler writes to the error stream arrives there at any time, and never in the body.
func TestFCGIStderrIsSeparateFromBody(t *testing.T) {
	large := strings.Repeat("large ", 30_000)
	between := inTurn(writeError("before,"), write("one "), writeError("between,"), flush, writeError("flushed,"),
		write("two"), writeError("after"))
	many := func(w http.ResponseWriter, r *http.Request) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 500 {
					writeError("x")(w, r)
					write("y")(w, r)
				}
			})
		}
		wg.Wait()
	}
	for _, test := range []struct {
		method, path string
		handler      http.HandlerFunc
		body, stderr string
	}{
		{"GET", "/between", between, "one two", "before,between,flushed,after"},
		{"HEAD", "/between", between, "", "before,between,flushed,after"},
		{"GET", "/alone", writeError("alone"), "", "alone"},
		{"GET", "/large", writeError(large), "", large},
		{"GET", "/many", many, strings.Repeat("y", 2000), strings.Repeat("x", 2000)},
	} {
		t.Run(test.method+test.path, func(t *testing.T) {
			kept := make(chan http.ResponseWriter, 1)
			everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/next" {
					return
				}
				test.handler(w, r)
				kept <- w
			}), func(s *fcgiSite) {
				p := s.peer()
				a := p.roundTrip(fcgiRequest{method: test.method, uri: test.path}.String())
				testkit.Equal(s, a.body, test.body)
				testkit.Equal(s, string(a.stderr), test.stderr)
				testkit.Fails(io.WriteString(stderrOf(<-kept), "late"))(s, "", "writing after the handler has returned")
				a = p.roundTrip(aGET("/next"))
				testkit.Equal(s, a.body+string(a.stderr), "", "the next response")
			})
		})
	}
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
	halfMinute := make([]string, 30)
	return append(silences(aGET("/"), []string{begin, list[:20], list[20:40]}, body, rec(stdinStream, 1, "c")), []silence{
		{"default: part of a header", &http.Server{}, []string{begin[:1], begin[1:2], begin[2:3]}, 27 * second},
		{"default: no body", &http.Server{}, []string{fcgiRequest{}.head()}, 29 * second},
		{"default: records of others", &http.Server{},
			[]string{rec(stdinStream, 7, "x"), rec(dataStream, 7, "x"), rec(stdinStream, 7, "")}, 27 * second},
		{"default: questions", &http.Server{}, []string{question, question, question}, 27 * second},
		{"default: aborted", &http.Server{}, []string{begin, abort, begin}, 27 * second},
		{"no bound on bodies", &http.Server{}, []string{body}, -1},
		{"default: replies not read", &http.Server{}, append([]string{body + strings.Repeat(rec(99, 0, ""), 6000)},
			halfMinute...), 0},
		{"question in a slow body", &http.Server{}, slices.Concat([]string{body + question}, halfMinute,
			[]string{inRecords(stdinStream, 1, 9, "cdefghi")}), -1},
	}...)
}
