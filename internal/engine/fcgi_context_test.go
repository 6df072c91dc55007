package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine/fastcgi"
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

// A handler that knows the length of a body may never read its end. Its context is canceled all the
// same, whenever the end arrives.
func TestFCGIAbortAfterBodyOfKnownLengthCancelsContext(t *testing.T) {
	h := newWaiter()
	end := rec(stdinStream, 1, "")
	everyFCGIMode(t, handle(h.ServeHTTP), func(s *fcgiSite) {
		for _, size := range []int{1, 100, 70_000} {
			body := strings.TrimSuffix(inRecords(stdinStream, 1, 65528, strings.Repeat("x", size)), end)
			for name, variant := range map[string]struct {
				with, before, after string
				leave               bool
			}{
				"abort, at once":      {with: end + abort},
				"abort, before":       {with: end, before: abort},
				"abort, after":        {with: end, after: abort},
				"end and abort later": {after: end + abort},
				"end later, abort":    {before: end, after: abort},
				"abort for the end":   {before: abort},
				"abort then":          {after: abort},
				"leave":               {with: end, leave: true},
				"leave, end later":    {after: end, leave: true},
				"leave, no end":       {leave: true},
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

// Such a handler may also close the body and return before the end arrives. The connection is kept
// nevertheless.
func TestFCGIConnectionIsKeptIfStdinEndsAfterHandler(t *testing.T) {
	done := make(chan bool)
	everyFCGIMode(t, handle(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.Context().Err()
		io.ReadFull(r.Body, make([]byte, r.ContentLength))
		for range 100 { // so that a goroutine that waits for the end has started
			runtime.Gosched()
		}
		r.Body.Close()
		done <- true
	}), func(s *fcgiSite) {
		p := s.peer()
		for range 3 {
			io.WriteString(p, sized(5)+rec(stdinStream, 1, "hello"))
			<-done
			io.WriteString(p, rec(stdinStream, 1, ""))
			p.readResponse()
		}
	})
}

// The request's context is canceled when the web server leaves, however the handler uses it.
func TestFCGIDepartureCancelsContext(t *testing.T) {
	variants := map[string]func(context.Context, chan bool){
		"/done": func(ctx context.Context, used chan bool) { done := ctx.Done(); used <- true; <-done },
		"/err": func(ctx context.Context, used chan bool) {
			err := ctx.Err()
			for used <- true; err == nil; err = ctx.Err() {
				time.Sleep(time.Millisecond)
			}
		},
		"/derived": func(ctx context.Context, used chan bool) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			used <- true
			<-ctx.Done()
		},
		"/after": func(ctx context.Context, used chan bool) {
			done := make(chan bool)
			context.AfterFunc(ctx, func() { close(done) })
			used <- true
			<-done
		},
	}
	entered, used, ended := make(chan bool), make(chan bool, 1), make(chan error)
	everyFCGIMode(t, handle(func(_ http.ResponseWriter, r *http.Request) {
		entered <- true
		io.Copy(io.Discard, r.Body)
		variants[r.URL.Path](r.Context(), used)
		ended <- r.Context().Err()
	}), func(s *fcgiSite) {
		for variant := range variants {
			for _, request := range []string{aGET(variant),
				fcgiRequest{uri: variant, body: "hello", length: true}.String(),
				fcgiRequest{uri: variant, once: true}.String()} {
				for _, how := range []string{"close", "close early", "closeWrite"} {
					p := s.peer()
					io.WriteString(p, request)
					<-entered
					if how != "close early" {
						<-used
					}
					if how == "closeWrite" {
						p.closeWrite()
					} else {
						p.Close()
					}
					if how == "close early" {
						<-used
					}
					if err := <-ended; !errors.Is(err, context.Canceled) {
						s.Errorf("%s, %s: %v", variant, how, err)
					}
					p.Close()
				}
			}
		}
	})
}

// While the web server only waits, or sends other records, no context is canceled. When the handler
// returns, its context is.
func TestFCGIContextIsNotCanceledByOtherRecords(t *testing.T) {
	h := newWaiter()
	var ctx context.Context
	release := make(chan bool)
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wait {
			h.ServeHTTP(w, r)
			return
		}
		io.Copy(io.Discard, r.Body)
		_ = r.Context().Err()
		h.entered <- r.Context()
		<-release
		fmt.Fprint(w, r.Context().Err())
	}), func(s *fcgiSite) {
		for _, request := range []string{aGET(wait), fcgiRequest{uri: wait, body: "hello"}.String()} {
			p := s.peer()
			io.WriteString(p, request)
			ctx = <-h.entered
			io.WriteString(p, question+rec(abortRequest, 2, "")+rec(stdinStream, 5, abort))
			io.WriteString(p, aGET("/next"))
			for range 5 { // time to process what has arrived
				s.roundTrip(aGET("/other"))
			}
			select {
			case <-ctx.Done():
				s.Error("cancelled while the handler ran")
			default:
			}
			release <- true
			if a := p.readResponse(); a.body != "<nil>" {
				s.Error(a)
			}
			<-ctx.Done()
			if a := p.readResponse(); a.body != "/next <nil>" {
				s.Error(a)
			}
		}
	})
}

// Close cancels the contexts of running requests.
func TestFCGICloseCancelsContexts(t *testing.T) {
	h := newWaiter()
	everyFCGIMode(t, handle(h.ServeHTTP), func(s *fcgiSite) {
		p := s.peer()
		io.WriteString(p, aGET(wait))
		ctx := <-h.entered
		h.proceed <- true
		<-h.waits
		s.server.Close()
		<-ctx.Done()
		if a, err := p.tryReadResponse(); err == nil {
			s.Errorf("got %v", a)
		}
	})
}

// Reading a body returns the reason why the web server gave up.
func TestFCGIReadReturnsReasonOfFailure(t *testing.T) {
	entered := make(chan bool)
	type end struct{ err, ctx error }
	ended := make(chan end)
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return // for a connection that was kept
		}
		io.ReadFull(r.Body, make([]byte, 2))
		entered <- true
		_, err := io.Copy(io.Discard, r.Body)
		ended <- end{err, r.Context().Err()}
		io.WriteString(w, "sorry")
	}), func(s *fcgiSite) {
		for name, test := range map[string]struct {
			send string
			want error
		}{
			"abort":               {abort, fastcgi.ErrAborted},
			"abort in a record":   {"lo" + abort, fastcgi.ErrAborted},
			"abort and a request": {abort + aGET("/"), fastcgi.ErrAborted},
			"close":               {"", fastcgi.ErrConnClosed},
			"close in a record":   {rec(stdinStream, 1, "0123456789")[:11], fastcgi.ErrConnClosed},
			"close in a header":   {rec(stdinStream, 1, "0123456789")[:3], fastcgi.ErrConnClosed},
		} {
			for _, length := range []string{"9", ""} {
				p := s.peer()
				part, rest := rec(stdinStream, 1, "hel"), test.send
				if strings.HasPrefix(rest, "lo") {
					part = rec(stdinStream, 1, "hello")[:11]
				}
				io.WriteString(p, fcgiRequest{method: "POST", params: []string{"CONTENT_LENGTH", length}}.head()+part)
				<-entered
				io.WriteString(p, rest)
				if !errors.Is(test.want, fastcgi.ErrAborted) {
					p.closeWrite()
				}
				if got := <-ended; !errors.Is(got.err, test.want) || !errors.Is(got.ctx, context.Canceled) {
					s.Errorf("%s: %v, context %v; want %v", name, got.err, got.ctx, test.want)
				}
				if a := p.readResponse(); a.body != "sorry" {
					s.Errorf("%s: %v", name, a)
				}
				if name == "abort and a request" {
					p.readResponse()
				}
				p.Close()
			}
		}
	})
}

// A request that is aborted before it is complete gets END_REQUEST at once, and no handler sees it.
// The connection is kept if FCGI_KEEP_CONN is set.
func TestFCGIAbortBeforeHandlerGetsEndRequest(t *testing.T) {
	everyFCGIMode(t, handle(newWaiter().ServeHTTP), func(s *fcgiSite) {
		for name, part := range map[string]string{
			"begun": "", "part of the list": rec(paramsStream, 1, "\x01\x01A"),
			"all of the list": rec(paramsStream, 1, nameValues(fcgiRequest{}.list()...)) + rec(paramsStream, 1, ""),
			"padding":         padded(paramsStream, 1, "", 9),
		} {
			for _, keep := range []bool{true, false} {
				for _, bytewise := range []bool{false, true} {
					p := s.peer()
					text := begins(1, keep) + part + abort
					next := aGET("/next")
					if !keep {
						next = ""
					}
					if bytewise {
						for i := range len(text + next) {
							io.WriteString(p, (text + next)[i:i+1])
						}
					} else {
						p.send(text + next)
					}
					if a := p.readResponse(); a.status != requestComplete || a.stdout != nil {
						s.Errorf("%s: %v", name, a)
					}
					if !keep {
						p.mustClose()
					} else if a := p.readResponse(); a.body != "/next <nil>" {
						s.Errorf("%s: then %v", name, a)
					}
					p.Close()
				}
			}
		}
	})
}
