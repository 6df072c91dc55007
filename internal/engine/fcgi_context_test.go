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
)

// waiter is a handler that waits for the end of its context. The test waits for it.
type waiter struct {
	entered chan context.Context
	proceed chan bool // received before it uses its context
	waits   chan bool // sent when it has used its context
}

func newWaiter() *waiter {
	return &waiter{make(chan context.Context, 1), make(chan bool, 1), make(chan bool, 1)}
}

func (h *waiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, read := r.Context(), r.URL.Query().Get("read")
	if r.URL.Path != "/wait" {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s%v", r.URL.Path, b, err)
		return
	}
	if read == "late" {
		_ = ctx.Err() // uses the context
	}
	switch read {
	case "":
	case "length":
		io.ReadFull(r.Body, make([]byte, r.ContentLength))
	default:
		io.Copy(io.Discard, r.Body)
	}
	h.entered <- ctx
	<-h.proceed
	done := ctx.Done()
	h.waits <- true
	select {
	case <-done:
		fmt.Fprint(w, ctx.Err())
	case <-time.After(time.Minute):
		fmt.Fprint(w, "never cancelled")
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
	"while it waits":               {after: []string{abort}},
	"in the request's packet":      {with: abort},
	"in pieces":                    {after: strings.SplitAfter(abort, "")},
	"begun with the request":       {with: abort[:3], after: []string{abort[3:]}},
	"begun before it is used":      {before: abort[:5], after: []string{abort[5:]}},
	"behind a question":            {after: []string{question, abort}},
	"behind a question, in pieces": {after: strings.SplitAfter(question+abort, "")},
	"behind a question in packet":  {with: question, after: []string{abort}},
	"both in the packet":           {with: question + abort},
	"behind part of a question":    {with: question[:12], after: []string{question[12:] + abort}},
	"behind another's":             {with: rec(abortRequest, 2, ""), after: []string{abort}},
	"behind others' records": {before: rec(stdinStream, 2, strings.Repeat("\x01", 100)),
		after: []string{padded(stdinStream, 2, "", 50) + abort}},
	"behind a stream cut off": {with: rec(stdinStream, 2, strings.Repeat("\x01", 100))[:50],
		after: []string{rec(stdinStream, 2, strings.Repeat("\x01", 100))[50:] + abort}},
	"behind padding":          {before: padded(paramsStream, 3, "x", 200), after: []string{abort}},
	"behind the next request": {with: aGET("/next") + abort},
	"behind the next one, in pieces": {with: aGET("/next")[:20],
		after: []string{aGET("/next")[20:], abort[:2], abort[2:]}},
}

// ABORT_REQUEST cancels the request's context, whenever it arrives. The connection is kept, and
// what came with it gets its responses.
func TestFCGIAbortCancelsContext(t *testing.T) {
	h := newWaiter()
	everyFCGIMode(t, handle(h.ServeHTTP), func(s *fcgiSite) {
		for kind, request := range map[string]string{
			"GET": aGET(wait), "POST": fcgiRequest{uri: wait + "?read=all", body: "hello", length: true}.String(),
			"used before": fcgiRequest{uri: wait + "?read=late", body: "hello"}.String(),
		} {
			for name, variant := range abortions {
				s.Run(kind+"/"+name, func(t *testing.T) {
					p := s.in(t).peer()
					defer p.Close()
					io.WriteString(p, request+variant.with)
					<-h.entered
					io.WriteString(p, variant.before)
					h.proceed <- true
					<-h.waits
					for _, piece := range variant.after {
						io.WriteString(p, piece)
					}
					if a := p.readResponse(); a.body != context.Canceled.Error() {
						t.Error(a)
					}
					if all := variant.with + strings.Join(variant.after, ""); strings.Contains(all, "/next") {
						if a := p.readResponse(); a.body != "/next <nil>" {
							t.Errorf("next: %v", a)
						}
					}
					if a := p.roundTrip(aPOST("x")); a.body != "/ x<nil>" {
						t.Errorf("then: %v", a)
					}
					if all := variant.with + variant.before +
						strings.Join(variant.after, ""); strings.Contains(all, "MPXS") != (len(p.management) == 1) {
						t.Errorf("got %q", p.management)
					}
				})
			}
		}
	})
}

// A body ends at CONTENT_LENGTH. The context is canceled whether or not the end of STDIN follows.
func TestFCGIAbortAfterBodyOfKnownLengthCancelsContext(t *testing.T) {
	h := newWaiter()
	end := rec(stdinStream, 1, "")
	everyFCGIMode(t, handle(h.ServeHTTP), func(s *fcgiSite) {
		for _, size := range []int{1, 70_000} {
			body := strings.TrimSuffix(inRecords(stdinStream, 1, 65528, strings.Repeat("x", size)), end)
			for name, variant := range map[string]struct {
				with, before, after string
				leave               bool
			}{
				"abort, at once":   {with: end + abort},
				"abort, before":    {with: end, before: abort},
				"abort, after":     {with: end, after: abort},
				"abort then":       {after: abort},
				"leave, end later": {after: end, leave: true},
				"leave, no end":    {leave: true},
			} {
				s.Run(fmt.Sprint(name, "/", size), func(t *testing.T) {
					p := s.in(t).peer()
					defer p.Close()
					head := fcgiRequest{method: "POST", uri: wait + "?read=length",
						params: []string{"CONTENT_LENGTH", fmt.Sprint(size)}}.head()
					io.WriteString(p, head+body+variant.with)
					ctx := <-h.entered
					io.WriteString(p, variant.before)
					h.proceed <- true
					<-h.waits
					io.WriteString(p, variant.after)
					if variant.leave {
						p.Close()
						<-ctx.Done()
						return
					}
					if a := p.readResponse(); a.body != context.Canceled.Error() {
						t.Error(a)
					}
				})
			}
		}
	})
}

// A goroutine of a handler may flush while another begins to use the context, for which the server
// looks at the input: the race detector checks this.
func TestFCGIFlushDuringFirstUseOfContext(t *testing.T) {
	bothFCGIPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		var flush sync.WaitGroup
		flush.Go(w.(http.Flusher).Flush)
		r.Context().Done()
		flush.Wait()
	}), func(s *fcgiSite) {
		for range 20 {
			s.roundTrip(aGET("/"))
		}
	})
}

// A goroutine of the handler may use the context for the first time while the handler returns.
func TestFCGIFirstUseOfContextAtEnd(t *testing.T) {
	bothFCGIPaths(t, handle(func(_ http.ResponseWriter, r *http.Request) {
		go r.Context().Done()
	}), func(s *fcgiSite) {
		for range 200 {
			s.roundTrip(aGET("/"))
		}
	})
}
