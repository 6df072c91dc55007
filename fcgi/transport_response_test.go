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
	end := string(ended(0, wire.Complete))
	endOnly := string(wire.AppendEnd(nil, 1, wire.End{}))
	status := func(app uint32, s wire.Status) string { return string(ended(app, s)) }
	context := strings.NewReplacer("no response: ", "no response: tare: reading the response from pipe:1: ",
		"in the body: ", "tare: reading the response's body from pipe:1: ")
	for _, test := range []struct{ name, method, response, want string }{
		{"PHP's end, without STDOUT's", "GET", out("\nbody") + endOnly, `HTTP/1.1 200 OK -1 "" "body" <nil> | 1 kept`},
		{"STDERR", "GET", record(wire.Stderr, 1, "a note") + out("\nbody") + end,
			`HTTP/1.1 200 OK -1 "" "body" <nil> | stderr a note | 1 kept`},
		{"redirect", "GET", out("Location: /x\n\n") + end,
			`HTTP/1.1 302 Found -1 "Location: /x\r\n" "" <nil> | 1 kept`},
		{"status without words", "GET", out("Status: 299\n\n") + end, `HTTP/1.1 299 -1 "" "" <nil> | 1 kept`},
		{"exit status after a response", "GET", out("\nbody") + status(255, wire.Complete),
			`HTTP/1.1 200 OK -1 "" "body" <nil> | 1 kept`},
		{"fields of the connection", "GET", out("Connection: close\nKeep-Alive: x\n"+
			"Transfer-Encoding: chunked\nUpgrade: x\nTrailer: x\n"+
			"X-a: 1\nx-A: 2\n\nx") + end,
			`HTTP/1.1 200 OK -1 "X-A: 1\r\nX-A: 2\r\n" "x" <nil> | 1 kept`},
		{"length", "GET", out("Content-Length: 4\n\nbody") + end,
			`HTTP/1.1 200 OK 4 "Content-Length: 4\r\n" "body" <nil> | 1 kept`},
		{"length 0", "GET", out("Content-Length: 0\n\n") + end,
			`HTTP/1.1 200 OK 0 "Content-Length: 0\r\n" "" <nil> | 1 kept`},
		{"longer than its length", "GET", out("Content-Length: 4\n\nbo") + out("dy and") + out("more") + end,
			`HTTP/1.1 200 OK 4 "Content-Length: 4\r\n" "body" <nil> | 1 kept`},
		{"longer than length 0", "GET", out("Content-Length: 0\n\nbody") + end,
			`HTTP/1.1 200 OK 0 "Content-Length: 0\r\n" "" <nil> | 1 kept`},
		{"shorter than its length", "GET", out("Content-Length: 5\n\nbody") + end,
			`HTTP/1.1 200 OK 5 "Content-Length: 5\r\n" "body" in the body: unexpected EOF | 0 kept`},
		{"HEAD", "HEAD", out("Content-Length: 5\n\n") + end,
			`HTTP/1.1 200 OK 5 "Content-Length: 5\r\n" "" <nil> | 1 kept`},
		{"HEAD, response with a body", "HEAD", out("Content-Length: 5\n\nbo") + out("dy") + end,
			`HTTP/1.1 200 OK 5 "Content-Length: 5\r\n" "" <nil> | 1 kept`},
		{"204 with a body", "GET", out("Status: 204\n\nbody") + end, `HTTP/1.1 204 No Content 0 "" "" <nil> | 1 kept`},
		{"304 with a length", "GET", out("Status: 304\nContent-Length: 5\n\n") + end,
			`HTTP/1.1 304 Not Modified 0 "Content-Length: 5\r\n" "" <nil> | 1 kept`},
		{"padding behind the end", "GET", out("\nbody") + "\x01\x03\x00\x01\x00\x08\x05\x00" +
			strings.Repeat("\x00", 8+5), `HTTP/1.1 200 OK -1 "" "body" <nil> | 1 kept`},
		{"bytes behind the end", "GET", out("\nbody") + end + "x", `HTTP/1.1 200 OK -1 "" "body" <nil> | 0 kept`},
		{"a record behind the end", "GET", out("\nbody") + end + out("x"),
			`HTTP/1.1 200 OK -1 "" "body" <nil> | 0 kept`},

		{"HTTP", "GET", "HTTP/1.1 400 Bad Request\r\n\r\n",
			"no response: fcgi: unsupported FastCGI version (is it a FastCGI application?) | 0 kept"},
		{"type 0", "GET", record(0, 1, ""),
			"no response: fcgi: invalid record type 0 (is it a FastCGI application?) | 0 kept"},
		{"another request", "GET", record(wire.Stdout, 2, "\n"),
			"no response: unexpected record of type 6 for request 2 | 0 kept"},
		{"another request's end", "GET", out("\nbody") + string(wire.AppendEnd(nil, 2, wire.End{})),
			`HTTP/1.1 200 OK -1 "" "body" in the body: unexpected record of type 3 for request 2 | 0 kept`},
		{"a web server's record", "GET", record(wire.Stdin, 1, "x"),
			"no response: unexpected record of type 5 for request 1 | 0 kept"},
		{"an unknown record", "GET", record(99, 1, "x"),
			"no response: unexpected record of type 99 for request 1 | 0 kept"},
		{"the connection's", "GET", string(wire.AppendUnknownType(nil, 1)),
			"no response: unexpected record of type 11 for request 0 | 0 kept"},
		{"a web server's record within", "GET", out("\nab") + record(wire.Stdin, 1, "") + out("cd") + end,
			`HTTP/1.1 200 OK -1 "" "ab" in the body: unexpected record of type 5 for request 1 | 0 kept`},
		{"HEAD, an unknown record", "HEAD", out("Content-Length: 5\n\n") + record(99, 1, "x"),
			`HTTP/1.1 200 OK 5 "Content-Length: 5\r\n" "" in the body: unexpected record of type 99 for request 1 | 0 kept`},
		{"204, an unknown record", "GET", out("Status: 204\n\n") + record(99, 1, "x"),
			`HTTP/1.1 204 No Content 0 "" "" in the body: unexpected record of type 99 for request 1 | 0 kept`},
		{"STDOUT after its end", "GET", out("\nbody") + out("") + out("x"),
			`HTTP/1.1 200 OK -1 "" "body" in the body: unexpected record of type 6 for request 1 | 0 kept`},
		{"malformed end", "GET", out("\nbody") + record(wire.EndRequest, 1, "short"),
			`HTTP/1.1 200 OK -1 "" "body" in the body: fcgi: END_REQUEST content is not 8 bytes long | 0 kept`},
		{"long end", "GET", out("\nbody") + record(wire.EndRequest, 1, strings.Repeat("x", 5000)),
			`HTTP/1.1 200 OK -1 "" "body" in the body: fcgi: message too long (is it a FastCGI application?) | 0 kept`},
		{"version within", "GET", out("\nbody") + "\x02",
			`HTTP/1.1 200 OK -1 "" "body" in the body: fcgi: unsupported FastCGI version ` +
				"(is it a FastCGI application?) | 0 kept"},
		{"interim", "GET", out("Status: 103\n\n") + end, "no response: unexpected interim response 103 | 0 kept"},
		{"switch", "GET", out("Status: 101\n\n") + end, "no response: unexpected interim response 101 | 0 kept"},
		{"malformed status", "GET", out("Status: OK\n\n") + end,
			"no response: http1: malformed Status at byte 8 | 0 kept"},
		{"malformed field", "GET", out("no colon\n\n") + end,
			"no response: http1: space in field name or before its colon at byte 2 | 0 kept"},
		{"two lengths", "GET", out("Content-Length: 1\nContent-Length: 1\n\nx") + end,
			"no response: http1: second Content-Length at byte 34 | 0 kept"},
		{"no response", "GET", end,
			"no response: the application ended the request without a complete response head: unexpected EOF | 0 kept"},
		{"half a head", "GET", out("Status: 200\n") + status(1, wire.Complete),
			"no response: the application ended the request without a complete response head: unexpected EOF | 0 kept"},
		{"an exit status alone", "GET", status(3, wire.Complete),
			"no response: fcgi: the application ended the request without a response, with status 3 | 0 kept"},
		{"overloaded", "GET", status(0, wire.Overloaded), "no response: fcgi: the application is overloaded | 0 kept"},
		{"overloaded within", "GET", out("\nbody") + status(0, wire.Overloaded),
			`HTTP/1.1 200 OK -1 "" "body" in the body: fcgi: the application is overloaded | 0 kept`},
		{"cannot multiplex", "GET", status(0, wire.CantMultiplex),
			"no response: fcgi: the application cannot multiplex requests on a connection | 0 kept"},
		{"unknown role", "GET", status(0, wire.UnknownRole),
			"no response: fcgi: the application does not support the Responder role | 0 kept"},
		{"unknown status", "GET", status(0, 9),
			"no response: the application ended the request with unknown protocol status 9 | 0 kept"},
	} {
		tr := canned(t, []byte(test.response))
		log := ""
		tr.Stderr = func(_ *http.Request, text []byte) { log += "stderr " + string(text) + " | " }
		resp, body, err := responseTo(tr, newRequest(t, test.method, address, nil))
		got := fmt.Sprintf("%s | %s%d kept", describe(resp, body, err), log, tr.Idle())
		testkit.Equal(t, got, context.Replace(test.want), test.name)
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
