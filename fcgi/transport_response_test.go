package fcgi_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// canned returns a Transport to an application that receives a request, and sends pieces as its
// response. Then the application closes the connection, unless kept is set.
func canned(t testing.TB, kept bool, pieces ...[]byte) *fcgi.Transport {
	tr := &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1}
	tr.DialContext = piped(t, func(p *peer, _ int) {
		if p.request() == nil {
			return
		}
		for _, piece := range pieces {
			if _, err := p.Write(piece); err != nil {
				return
			}
		}
		if kept {
			p.next()
		}
	})
	return checked(t, tr)
}

// outcome describes everything that a caller observes of a response.
func outcome(t testing.TB, method string, kept bool, pieces ...[]byte) string {
	tr := canned(t, kept, pieces...)
	var log bytes.Buffer
	tr.Stderr = func(_ *http.Request, text []byte) { log.Write(text) }
	resp, body, err := responseTo(tr, newRequest(t, method, address, nil))
	idle := tr.Idle()
	tr.CloseIdleConnections()
	return fmt.Sprintf("%s | stderr %q | %d kept", describe(resp, body, err), log.String(), idle)
}

const head = "Status: 201 Made\r\nContent-Type: text/plain\r\n\r\n"

// rich returns a response with everything that may be in one.
func rich(head string) []byte {
	b := wire.AppendStream(nil, wire.Stderr, 1, []byte("a warning\n"))
	b = append(wire.AppendHeader(b, wire.Header{Type: wire.Stdout, ID: 1, Length: uint16(len(head) - 5), Padding: 3}),
		head[:len(head)-5]+"pad"...)
	b = wire.AppendStream(b, wire.Stdout, 1, []byte(head[len(head)-5:]+"hel"))
	b = wire.AppendStream(b, wire.Stderr, 1, []byte("another"))
	b = wire.AppendStream(b, wire.Stdout, 1, []byte("lo"))
	b = wire.AppendStreamEnd(b, wire.Stderr, 1)
	return append(b, ended(7, wire.Complete)...)
}

// A response is the same in whatever pieces it arrives.
func TestResponseMayArriveInAnyPieces(t *testing.T) {
	for _, head := range []string{head, strings.Replace(head, "\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n", 1),
		strings.ReplaceAll(head, "\r", "")} {
		got := testkit.EverySplit(t, rich(head),
			func(pieces [][]byte) string { return outcome(t, "GET", true, pieces...) })
		length := -1
		header := "Content-Type: text/plain\r\n"
		if strings.Contains(head, "Length") {
			length, header = 5, "Content-Length: 5\r\n"+header
		}
		want := fmt.Sprintf(`HTTP/1.1 201 Made %d %q "hello" <nil> | stderr "a warning\nanother" | 1 kept`, length,
			header)
		if got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

// A response that is cut off anywhere is an error. What arrived before is the beginning of the
// right body.
func TestTruncatedResponseIsAnError(t *testing.T) {
	for _, method := range []string{"GET", "HEAD"} {
		for _, head := range []string{head, strings.Replace(head, "\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n", 1)} {
			good := rich(head)
			for cut := range good {
				tr := canned(t, false, good[:cut])
				resp, body, err := responseTo(tr, newRequest(t, method, address, nil))
				want := io.ErrUnexpectedEOF
				if cut == 0 {
					want = io.EOF
				}
				if !errors.Is(err, want) || !strings.HasPrefix("hello", body) {
					t.Fatalf("%s, cut at %d of %d: %s", method, cut, len(good), describe(resp, body, err))
				}
				if tr.Idle()+tr.Active() != 0 {
					t.Fatalf("%s, cut at %d: the connection is kept", method, cut)
				}
			}
		}
	}
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
			"no response: " +
				"http1: space in field name or before its colon at byte 2 | 0 kept"},
		{"two lengths", "GET", out("Content-Length: 1\nContent-Length: 1\n\nx") + end,
			"no response: http1: second Content-Length at byte 34 | 0 kept"},
		{"no response", "GET", end,
			"no response: the application ended the request " +
				"without a complete response head: unexpected EOF | 0 kept"},
		{"half a head", "GET", out("Status: 200\n") + status(1, wire.Complete),
			"no response: the application ended the request " +
				"without a complete response head: unexpected EOF | 0 kept"},
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
		got := strings.Replace(outcome(t, test.method, true, []byte(test.response)), ` | stderr ""`, "", 1)
		if want := context.Replace(test.want); got != want {
			t.Errorf("%s\n got %s\nwant %s", test.name, got, want)
		}
	}
}

// The errors of an application have types of their own, and are TransportErrors.
func TestApplicationErrorsHaveTypes(t *testing.T) {
	for status, want := range map[wire.Status]error{
		wire.Overloaded: fcgi.ErrOverloaded, wire.CantMultiplex: fcgi.ErrCannotMultiplex,
		wire.UnknownRole: fcgi.ErrUnknownRole,
	} {
		_, err := canned(t, false, ended(0, status)).RoundTrip(get(t, address))
		failure, ok := errors.AsType[*tare.TransportError](err)
		if !errors.Is(err, want) || !ok || failure.Kind != tare.RequestRejected {
			t.Errorf("%v: %v", status, err)
		}
	}
	_, err := canned(t, false, ended(1<<31, wire.Complete)).RoundTrip(get(t, address))
	if exit, ok := errors.AsType[*fcgi.ExitError](err); !ok || exit.Status != 1<<31 {
		t.Errorf("%v", err)
	}
}

// A response's head may be as long as the limit, and no longer.
func TestResponseHeadIsLimited(t *testing.T) {
	field := func(n int) string { return "X: " + strings.Repeat("x", n-len("X: \n\n")) + "\n\n" }
	for _, test := range []struct {
		limit int64
		head  string
		want  string // in the error
	}{
		{0, field(http.DefaultMaxHeaderBytes), ""},
		{0, field(http.DefaultMaxHeaderBytes + 1), "too large"},
		{100, field(100), ""},
		{100, field(101), "too large"},
		{0, strings.Repeat("X: y\n", 1000) + "\n", ""},
		{0, strings.Repeat("X: y\n", 1001) + "\n", "too many"},
	} {
		tr := canned(t, true, whole(test.head+"body"))
		tr.MaxResponseHeaderBytes = test.limit
		resp, body, err := responseTo(tr, get(t, address))
		if test.want == "" && (err != nil || body != "body" || len(resp.Header["X"]) == 0) || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("a head of %d bytes, limit %d: %v, %q; want %q", len(test.head), test.limit, err, body, test.want)
		}
	}
}

// Long records are received into the reader's buffer, with the same result.
func TestLongRecordsAreReceivedDirectly(t *testing.T) {
	const size = 1 << 20
	whole, err := io.ReadAll(newPattern(size))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		length, sent int // Content-Length, and the bytes sent
		ends         bool
		read         int
		err          error
		kept         int
	}{
		{-1, size, true, size, nil, 1},
		{size, size, true, size, nil, 1},
		{size - 100_000, size, true, size - 100_000, nil, 1}, // the excess is skipped
		{size - 300_000, size, true, size - 300_000, nil, 0}, // but not without limit
		{size, size - 1, true, size - 1, io.ErrUnexpectedEOF, 0},
		{-1, size, false, size, io.ErrUnexpectedEOF, 0},
		{size, size, false, size, io.ErrUnexpectedEOF, 0},
		{size, 500_000, false, 500_000, io.ErrUnexpectedEOF, 0},
		{-1, 500_000, false, 500_000, io.ErrUnexpectedEOF, 0},
	} {
		head := "\n"
		if test.length >= 0 {
			head = fmt.Sprintf("Content-Length: %d\n\n", test.length)
		}
		for _, room := range []int{512, 20_000, 200_000} {
			response := wire.AppendStream(nil, wire.Stdout, 1, append([]byte(head), whole[:test.sent]...))
			if test.ends {
				response = append(response, ended(0, wire.Complete)...)
			} else {
				response = response[:len(response)-1]
				test.read = min(test.read, test.sent-1)
			}
			tr := canned(t, test.ends, response)
			resp, err := tr.RoundTrip(get(t, address))
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.CopyBuffer(struct{ io.Writer }{newPattern(size)}, struct{ io.Reader }{resp.Body},
				make([]byte, room))
			if int(n) != test.read || !errors.Is(err, test.err) || tr.Idle() != test.kept {
				t.Errorf("%+v, %d bytes at a time: %d bytes, %v, %d kept", test, room, n, err, tr.Idle())
			}
			resp.Body.Close()
		}
	}
}

// A body that is not allowed is read up to a limit.
func TestDisallowedBodyIsReadUpToLimit(t *testing.T) {
	for _, test := range []struct{ method, head string }{{"HEAD", "\n"}, {"GET", "Content-Length: 4\n\nbody"},
		{"GET", "Status: 204\n\n"}} {
		const most = 1 << 20
		wrote := make(chan int, 1)
		tr := checked(t, &fcgi.Transport{Addr: "pipe:1", DialContext: piped(t, func(p *peer, _ int) {
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
		if n := <-wrote; n >= most {
			t.Errorf("%s %q: %d bytes were read", test.method, test.head, n)
		}
	}
}

// A slow reader slows the application down: no more than a buffer is received ahead of it.
func TestSlowReaderSlowsApplication(t *testing.T) {
	const ahead = 64 << 10
	sent := make(chan int, 1<<20)
	tr := checked(t, &fcgi.Transport{Addr: "pipe:1", DialContext: piped(t, func(p *peer, _ int) {
		p.request()
		p.out("\n")
		for n := 0; p.out(strings.Repeat("x", 1000)) == nil; {
			n += 1000
			sent <- n
		}
		close(sent)
	})})
	resp, err := tr.RoundTrip(get(t, address))
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, size := range []int{1, 10, 100_000, 7} {
		n, err := io.ReadFull(resp.Body, make([]byte, size))
		if read += n; err != nil {
			t.Fatal(err)
		}
	}
	resp.Body.Close()
	last := 0
	for n := range sent {
		last = n
	}
	if last < read-2000 || last > read+ahead {
		t.Errorf("%d bytes were received for %d that were read", last, read)
	}
}

// The content of STDERR is passed to Stderr, with its request, and does not affect the response.
func TestStderrIsPassedOn(t *testing.T) {
	long := strings.Repeat("e", 200_000)
	b := wire.AppendStream(nil, wire.Stderr, 1, []byte(long))
	b = wire.AppendStream(b, wire.Stdout, 1, []byte("\nbo"))
	b = wire.AppendStream(b, wire.Stderr, 1, []byte(long))
	b = wire.AppendStream(b, wire.Stdout, 1, []byte("dy"))
	b = append(wire.AppendStream(b, wire.Stderr, 1, []byte("last")), ended(0, wire.Complete)...)
	must(t, canned(t, true, b), get(t, address), "body") // without Stderr
	tr := canned(t, true, b)
	var log strings.Builder
	r := get(t, address)
	tr.Stderr = func(of *http.Request, text []byte) {
		if of != r || len(text) == 0 {
			t.Errorf("%p, want %p, %d bytes", of, r, len(text))
		}
		log.Write(text)
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, room := "", make([]byte, 100_000)
	for err == nil {
		var n int
		n, err = resp.Body.Read(room)
		body += string(room[:n])
	}
	if body != "body" || !errors.Is(err, io.EOF) || log.String() != long+long+"last" {
		t.Errorf("%d bytes, %v, %d bytes of STDERR", len(body), err, log.Len())
	}
}
