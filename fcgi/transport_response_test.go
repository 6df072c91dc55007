package fcgi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// canned returns a Transport to an application that receives a request, and sends bytes as its
// response.
func canned(t testing.TB, response []byte) *fcgi.Transport {
	return checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1, DialContext: piped(t, func(p *peer) {
		if p.request() != nil {
			p.Write(response)
			io.Copy(io.Discard, p)
		}
	})})
}

// Responses of all kinds, valid and not, and what the Transport returns for them.
func TestResponsesAreChecked(t *testing.T) {
	record := func(typ wire.Type, id uint16, content string) string {
		return string(wire.AppendHeader(nil, wire.Header{Type: typ, ID: id, Length: uint16(len(content))})) + content
	}
	out := func(s string) string { return record(wire.Stdout, 1, s) }
	status := func(app uint32, s wire.Status) string { return string(ended(app, s)) }
	const ( // parts of the outcomes below
		ok, kept, lost = "HTTP/1.1 200 OK ", " | 1 kept", " | 0 kept"
		whole, ofBody  = ok + `-1 "" "body" <nil>`, ok + `-1 "" "body" tare: reading the response's body from pipe:1: `
		of             = "no response: tare: reading the response from pipe:1: "
		isIt           = " (is it a FastCGI application?)"
		noHead         = of + "the application ended the request without a complete response head: unexpected EOF" + lost
	)
	body, end, odd := out("\nbody"), status(0, wire.Complete), of+"unexpected record of type "
	for _, test := range []struct{ name, response, want string }{
		{"PHP's end, without STDOUT's", body + string(wire.AppendEnd(nil, 1, wire.End{})), whole + kept},
		{"STDERR", record(wire.Stderr, 1, "a note") + body + end, whole + " | stderr a note" + kept},
		{"redirect", out("Location: /x\n\n") + end, `HTTP/1.1 302 Found -1 "Location: /x\r\n" "" <nil>` + kept},
		{"status without words", out("Status: 299\n\n") + end, `HTTP/1.1 299 -1 "" "" <nil>` + kept},
		{"exit status after a response", body + status(255, wire.Complete), whole + kept},
		{"fields of the connection", out("Connection: close\nKeep-Alive: x\nTransfer-Encoding: chunked\nUpgrade: x\n"+
			"Trailer: x\nX-a: 1\nx-A: 2\n\nx") + end, ok + `-1 "X-A: 1\r\nX-A: 2\r\n" "x" <nil>` + kept},
		{"length", out("Content-Length: 4\n\nbody") + end, ok + `4 "Content-Length: 4\r\n" "body" <nil>` + kept},
		{"length 0", out("Content-Length: 0\n\n") + end, ok + `0 "Content-Length: 0\r\n" "" <nil>` + kept},
		{"longer than its length", out("Content-Length: 4\n\nbo") + out("dy and") + out("more") + end,
			ok + `4 "Content-Length: 4\r\n" "body" <nil>` + kept},
		{"longer than length 0", out("Content-Length: 0\n\nbody") + end,
			ok + `0 "Content-Length: 0\r\n" "" <nil>` + kept},
		{"shorter than its length", out("Content-Length: 5\n\nbody") + end, strings.Replace(ofBody, `-1 ""`,
			`5 "Content-Length: 5\r\n"`, 1) + "unexpected EOF" + lost},
		{"HEAD", out("Content-Length: 5\n\n") + end, ok + `5 "Content-Length: 5\r\n" "" <nil>` + kept},
		{"HEAD, response with a body", out("Content-Length: 5\n\nbo") + out("dy") + end,
			ok + `5 "Content-Length: 5\r\n" "" <nil>` + kept},
		{"204 with a body", out("Status: 204\n\nbody") + end, `HTTP/1.1 204 No Content 0 "" "" <nil>` + kept},
		{"304 with a length", out("Status: 304\nContent-Length: 5\n\n") + end,
			`HTTP/1.1 304 Not Modified 0 "Content-Length: 5\r\n" "" <nil>` + kept},
		{"padding behind the end", body + "\x01\x03\x00\x01\x00\x08\x05\x00" + strings.Repeat("\x00", 8+5), whole + kept},
		{"bytes behind the end", body + end + "x", whole + lost},
		{"a record behind the end", body + end + out("x"), whole + lost},

		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", of + "fcgi: unsupported FastCGI version" + isIt + lost},
		{"another request", record(wire.Stdout, 2, "\n"), odd + "6 for request 2" + lost},
		{"another request's end", body + string(wire.AppendEnd(nil, 2, wire.End{})),
			ofBody + "unexpected record of type 3 for request 2" + lost},
		{"a web server's record", record(wire.Stdin, 1, "x"), odd + "5 for request 1" + lost},
		{"an unknown record", record(99, 1, "x"), odd + "99 for request 1" + lost},
		{"the connection's", string(wire.AppendUnknownType(nil, 1)), odd + "11 for request 0" + lost},
		{"a web server's record within", out("\nab") + record(wire.Stdin, 1, "") + out("cd") + end,
			strings.Replace(ofBody, "body", "ab", 1) + "unexpected record of type 5 for request 1" + lost},
		{"HEAD, an unknown record", out("Content-Length: 5\n\n") + record(99, 1, "x"), ok +
			`5 "Content-Length: 5\r\n" "" tare: reading the response's body from pipe:1: ` +
			"unexpected record of type 99 for request 1" + lost},
		{"204, an unknown record", out("Status: 204\n\n") + record(99, 1, "x"),
			`HTTP/1.1 204 No Content 0 "" "" tare: reading the response's body from pipe:1: ` +
				"unexpected record of type 99 for request 1" + lost},
		{"STDOUT after its end", body + out("") + out("x"), ofBody + "unexpected record of type 6 for request 1" + lost},
		{"malformed end", body + record(wire.EndRequest, 1, "short"),
			ofBody + "fcgi: END_REQUEST content is not 8 bytes long" + lost},
		{"interim", out("Status: 103\n\n") + end, of + "unexpected interim response 103" + lost},
		{"malformed status", out("Status: OK\n\n") + end, of + "http1: malformed Status at byte 8" + lost},
		{"no response", end, noHead},
		{"half a head", out("Status: 200\n") + status(1, wire.Complete), noHead},
		{"an exit status alone", status(3, wire.Complete),
			of + "fcgi: the application ended the request without a response, with status 3" + lost},
		{"overloaded within", body + status(0, wire.Overloaded), ofBody + "fcgi: the application is overloaded" + lost},
		{"unknown status", status(0, 9), of + "the application ended the request with unknown protocol status 9" + lost},
	} {
		method := "GET"
		if strings.HasPrefix(test.name, "HEAD") {
			method = "HEAD"
		}
		tr := canned(t, []byte(test.response))
		log := ""
		tr.Stderr = func(_ *http.Request, text []byte) { log += " | stderr " + string(text) }
		resp, body, err := responseTo(tr, newRequest(t, method, address, nil))
		got := fmt.Sprintf("%s%s | %d kept", describe(resp, body, err), log, tr.Idle())
		testkit.Equal(t, got, test.want, test.name)
		tr.CloseIdleConnections()
	}
}

// The errors of an application have types of their own, and are TransportErrors.
func TestApplicationErrorsHaveTypes(t *testing.T) {
	for status, want := range map[wire.Status]error{
		wire.Overloaded: fcgi.ErrOverloaded, wire.CantMultiplex: fcgi.ErrCannotMultiplex,
		wire.UnknownRole: fcgi.ErrUnknownRole,
	} {
		_, err := canned(t, ended(0, status)).RoundTrip(get(t, address))
		failure, ok := errors.AsType[*tare.TransportError](err)
		if !errors.Is(err, want) || !ok || failure.Kind != tare.RequestRejected {
			t.Errorf("%v: %v", status, err)
		}
	}
	_, err := canned(t, ended(1<<31, wire.Complete)).RoundTrip(get(t, address))
	if exit, ok := errors.AsType[*fcgi.ExitError](err); !ok || exit.Status != 1<<31 {
		t.Errorf("%v", err)
	}
}

func TestDisallowedBodyIsReadUpToLimit(t *testing.T) {
	for _, test := range []struct{ method, head string }{{"HEAD", "\n"}, {"GET", "Content-Length: 4\n\nbody"},
		{"GET", "Status: 204\n\n"}} {
		const most = 1 << 20
		wrote := make(chan int, 1)
		tr := checked(t, &fcgi.Transport{Addr: "pipe:1", DialContext: piped(t, func(p *peer) {
			p.request()
			p.out(test.head)
			n := 0
			for n < most && p.out(strings.Repeat("x", 4<<10)) == nil {
				n += 4 << 10
			}
			wrote <- n
		})})
		if _, body, err := responseTo(tr, newRequest(t, test.method, address, nil)); err != nil ||
			!strings.HasPrefix("body", body) {
			t.Errorf("%s %q: %q, %v", test.method, test.head, body, err)
		}
		testkit.Between(t, <-wrote, 0, most-1, test.method, test.head)
	}
}

// By default, connecting may take 10 seconds, and an idle connection is closed after 30.
func TestTimeoutsHaveDefaults(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Hour: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			tr := &fcgi.Transport{Addr: "pipe:1", DialTimeout: timeout,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}
			began := time.Now()
			_, err := tr.RoundTrip(get(t, address))
			var late net.Error
			if !errors.As(err, &late) || !late.Timeout() || time.Since(began) != want {
				t.Errorf("%v after %v, want %v", err, time.Since(began), want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		tr := &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1, DialContext: piped(t, func(p *peer) {
			for p.request() != nil {
				p.respond("\nbody")
			}
		})}
		must(t, tr, get(t, address), "body")
		for _, want := range []int{1, 0} {
			time.Sleep(29 * time.Second)
			synctest.Wait()
			testkit.Equal(t, fmt.Sprint(tr.Idle(), tr.Pools()), fmt.Sprint(want, want), "connections and pools")
		}
	})
}

func TestTransportFieldsLimitConnectionsTimesAndSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &fcgi.Transport{Addr: "pipe:1", MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1,
			IdleConnTimeout: time.Second, ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: 100}
		tr.DialContext = piped(t, func(p *peer) {
			for params := p.request(); params != nil; params = p.request() {
				switch params["REQUEST_URI"] {
				case "/silent":
					io.Copy(io.Discard, p)
				case "/large":
					p.respond("A: " + strings.Repeat("a", 200) + "\n\n")
				default:
					testkit.Equal(t, p.keeps, true, "FCGI_KEEP_CONN")
					time.Sleep(time.Second)
					p.respond("\nbody")
				}
			}
		})
		began := time.Now()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				_, body, err := responseTo(tr, get(t, address))
				testkit.Check(t, err)
				testkit.Equal(t, body, "body")
			})
		}
		both.Wait()
		testkit.Equal(t, time.Since(began), 2*time.Second, "one after the other")
		time.Sleep(time.Second)
		synctest.Wait()
		testkit.Equal(t, tr.Idle(), 0, "idle connections")
		_, err := tr.RoundTrip(get(t, address+"large"))
		testkit.Error(t, err, "section too large")
		began = time.Now()
		testkit.FailsWith(tr.RoundTrip(get(t, address+"silent")))(t, os.ErrDeadlineExceeded)
		testkit.Equal(t, time.Since(began), time.Minute, "without a response")
	})
}
