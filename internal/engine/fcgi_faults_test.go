package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// These tests show the known faults of net/http/fcgi, and that this engine does not have them. If
// Go fixes one, its test fails, and the documentation must change.

// faulty runs a test on net/http/fcgi and on this engine, in a synctest bubble. begin returns the
// handler and the client's part.
func faulty(t *testing.T, begin func(t *testing.T, ours bool) (http.HandlerFunc, func(p *fcgiPeer))) {
	t.Helper()
	for name, newServer := range fcgiMakers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, test := begin(t, name == "tare")
				var nw testkit.Network
				s := newServer(&http.Server{Handler: h})
				done := goServe(s, nw.Listen())
				c, err := nw.Dial()
				if err != nil {
					t.Fatal(err)
				}
				test(newFCGIPeer(t, c))
				c.Close()
				s.Close()
				<-done
			})
		})
	}
}

// TestFCGIServerThatPanics is the process that TestFCGIPanicEndsProcessOnlyInStd starts.
func TestFCGIServerThatPanics(t *testing.T) {
	name := os.Getenv("TARE_FCGI_PANICS")
	if name == "" {
		t.Skip("is run by TestFCGIPanicEndsProcessOnlyInStd")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Addr())
	s := fcgiMakers[name](&http.Server{ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic(http.ErrAbortHandler) // as httputil.ReverseProxy does when a client leaves
			}
		})})
	go s.Serve(l)
	io.Copy(io.Discard, os.Stdin) // until the other process ends
}

// With net/http/fcgi a handler's panic ends the process, and with it all requests.
func TestFCGIPanicEndsProcessOnlyInStd(t *testing.T) {
	for name := range fcgiMakers {
		t.Run(name, func(t *testing.T) {
			address := strings.TrimSpace(play(t, "TestFCGIServerThatPanics", "TARE_FCGI_PANICS="+name))
			dial := func() *fcgiPeer {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				c.SetDeadline(time.Now().Add(time.Minute))
				return newFCGIPeer(t, c)
			}
			bystander, bad := dial(), dial()
			bystander.roundTrip(aGET("/"))
			bad.send(aGET("/panic"))
			if a, err := bad.tryReadResponse(); err == nil {
				t.Errorf("got %v", a)
			}
			bystander.send(aGET("/"))
			if _, err := bystander.tryReadResponse(); (err == nil) != (name == "tare") {
				t.Errorf("the bystander: %v", err)
			}
		})
	}
}

// With net/http/fcgi no context is ever canceled.
func TestFCGIContextIsCanceledUnlikeStd(t *testing.T) {
	faulty(t, func(t *testing.T, ours bool) (http.HandlerFunc, func(*fcgiPeer)) {
		ended := make(chan error, 1)
		return func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				ended <- errors.Join(err, r.Context().Err())
			}, func(p *fcgiPeer) {
				io.WriteString(p, sized(5)+rec(stdinStream, 1, "he"))
				synctest.Wait()
				p.Close()
				if err := <-ended; err == nil || errors.Is(err, context.Canceled) != ours {
					t.Errorf("the handler got %v", err)
				}
			}
	})
}

// With net/http/fcgi a connection may start any number of concurrent requests.
func TestFCGIConcurrentRequestsAreLimitedUnlikeStd(t *testing.T) {
	const n = 50
	faulty(t, func(t *testing.T, ours bool) (http.HandlerFunc, func(*fcgiPeer)) {
		var running atomic.Int32
		return func(_ http.ResponseWriter, r *http.Request) {
				running.Add(1)
				io.Copy(io.Discard, r.Body)
			}, func(p *fcgiPeer) {
				for id := range n {
					io.WriteString(p, fcgiRequest{id: 1 + id, method: "POST"}.head()+rec(stdinStream, 1+id, "x"))
				}
				synctest.Wait()
				if got := running.Load(); got != n && !ours || got != 1 && ours {
					t.Errorf("%d handlers run", got)
				}
			}
	})
}

// With net/http/fcgi RequestURI is empty.
func TestFCGIRequestURIIsSetUnlikeStd(t *testing.T) {
	faulty(t, func(t *testing.T, ours bool) (http.HandlerFunc, func(*fcgiPeer)) {
		return func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", r.RequestURI) }, func(p *fcgiPeer) {
			want := map[bool]string{true: `"/a%20b?c"`, false: `""`}[ours]
			if a := p.roundTrip(aGET("/a%20b?c")); a.body != want {
				t.Error(a)
			}
		}
	})
}

// With net/http/fcgi the response to a HEAD, and one of status 204, has a body.
func TestFCGIHeadAndStatus204HaveNoBodyUnlikeStd(t *testing.T) {
	faulty(t, func(t *testing.T, ours bool) (http.HandlerFunc, func(*fcgiPeer)) {
		return func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodHead {
					w.WriteHeader(http.StatusNoContent)
				}
				io.WriteString(w, "hello")
			}, func(p *fcgiPeer) {
				for _, method := range []string{"HEAD", "GET"} {
					if a := p.roundTrip(fcgiRequest{method: method}.String()); (a.body == "") != ours {
						t.Errorf("%s: %v", method, a)
					}
				}
			}
	})
}

// With net/http/fcgi an interim response is the only one.
func TestFCGIInterimResponseIsNotFinalUnlikeStd(t *testing.T) {
	faulty(t, func(t *testing.T, ours bool) (http.HandlerFunc, func(*fcgiPeer)) {
		return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusNotFound)
			}, func(p *fcgiPeer) {
				want := map[bool]int{true: http.StatusNotFound, false: http.StatusEarlyHints}[ours]
				if a := p.roundTrip(aGET("/")); a.code != want {
					t.Error(a)
				}
			}
	})
}

// With net/http/fcgi an aborted request is ended while its handler continues. What the handler then
// writes is sent with the id of the next request.
func TestFCGIReusedIDGetsOwnResponseUnlikeStd(t *testing.T) {
	const secret = "a secret of the first"
	faulty(t, func(t *testing.T, ours bool) (http.HandlerFunc, func(*fcgiPeer)) {
		first := make(chan bool)
		return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/first" {
					io.ReadAll(r.Body)
					<-first
					io.WriteString(w, secret)
					return
				}
				io.WriteString(w, "second")
			}, func(p *fcgiPeer) {
				io.WriteString(p, fcgiRequest{method: "POST", uri: "/first"}.head()+rec(stdinStream, 1, "x"))
				synctest.Wait()
				io.WriteString(p, abort)
				synctest.Wait()
				begun := begins(1, true)
				io.WriteString(p, begun)
				synctest.Wait()
				first <- true
				synctest.Wait()
				io.WriteString(p, fcgiRequest{uri: "/second"}.String()[len(begun):])
				p.closeWrite()
				synctest.Wait()
				all, _ := p.Conn.(*testkit.MemConn).Received()
				found := strings.Index(string(all), secret)
				ended := strings.Index(string(all), rec(endRequest, 1, strings.Repeat("\x00", 8)))
				if found < 0 || ended < 0 || (found < ended) != ours {
					t.Errorf("responses %q", all)
				}
			}
	})
}

// With net/http/fcgi parameters are not limited.
func TestFCGIParamsAreLimitedUnlikeStd(t *testing.T) {
	faulty(t, func(t *testing.T, ours bool) (http.HandlerFunc, func(*fcgiPeer)) {
		const size = 3 << 20
		return func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.Header.Get("X"))) },
			func(p *fcgiPeer) {
				p.send(fcgiRequest{params: []string{"HTTP_X", strings.Repeat("x", size)}}.String())
				a := p.readResponse()
				if want := map[bool]int{true: http.StatusRequestHeaderFieldsTooLarge,
					false: http.StatusOK}[ours]; a.code != want {
					t.Error(a)
				}
			}
	})
}
