package load_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// If no connection can be opened, the run ends at once with the reason.
func TestUnreachableServerEndsTheRun(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // no connection is accepted
	testkit.Must(t, err)
	defer silent.Close()
	r, err := load.Run(context.Background(), load.Plan{URL: "https://" + silent.Addr().String(), Requests: 1,
		Duration: time.Millisecond})
	const opening = "all were still being opened at the end"
	if failed, ok := errors.AsType[*load.ConnectError](err); !ok || failed.First != opening ||
		r.Errors.First != opening {
		t.Errorf("a handshake that does not end: %+v, %v", r, err)
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:1":                "connection refused",
		"fcgi://127.0.0.1:1":                "connection refused",
		"http://255.255.255.255:1/":         "connect: ",
		"fcgi+unix://" + t.TempDir() + "/s": "connect: no such file or directory",
	} {
		for _, p := range []load.Plan{{Duration: time.Hour}, {Requests: 1e9}, {Requests: 1, Pace: load.Constant(1)}} {
			p.URL = url
			r, err := load.Run(context.Background(), p)
			failed, ok := errors.AsType[*load.ConnectError](err)
			if !ok || failed.URL != url || !strings.Contains(failed.First, want) || r == nil || r.Requests != 0 ||
				r.Errors.Connect == 0 || r.Errors.First != failed.First {
				t.Errorf("%s: %+v, %v", url, r, err)
			}
		}
	}
}

// What the parsers reject is also an error of reading; TestHTTPReaderParsesEverySplit,
// TestFastCGIReaderParsesEverySplit and TestHTTP2ReaderParsesEverySplit list it.
func TestErrorsAreCountedByKind(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	read := func(e load.Errors) uint64 { return e.Read }
	timeout := func(e load.Errors) uint64 { return e.Timeout }
	refused := func(e load.Errors) uint64 { return e.Refused }
	status := func(e load.Errors) uint64 { return e.Status }
	const empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	// closing sends text in response to a request, and closes the connection.
	closing := func(text string) string {
		return script(t, func(_ int, c net.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			io.WriteString(c, text)
		})
	}
	application := func(limit int, text string) string { return fcgiScript(t, responding(limit, text)) }
	ok := load.Stdout(plain) + load.End(0, 0)
	streams := func(respond func(p *peer, id uint32)) string {
		return http2Script(t, nil, func(p *peer) {
			for id := p.request(); id != 0; id = p.request() {
				respond(p, id)
			}
		})
	}
	for name, test := range map[string]struct {
		url  string
		kind func(load.Errors) uint64
		text string
	}{
		"closes":           {closing(""), read, "closed before a response"},
		"closes midway":    {closing("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), read, "closed in the middle"},
		"closes in a head": {closing("HTTP/1.1 200 OK\r\n"), read, "closed in the middle"},
		"resets": {script(t, func(_ int, c net.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			c.(*net.TCPConn).SetLinger(0)
		}), read, "read: connection reset by peer"},
		"head that never ends": {script(t, func(_ int, c net.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X: y\r\n"); err != nil {
					return
				}
			}
		}), read, "too many field lines"},
		"malformed": {script(t, each("SSH-2.0-nonsense\r\n")), read, "malformed protocol version"},
		"large head": {script(t, each("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("a", 70_000)+"\r\n\r\n")), read,
			"section too large"},
		"too much": {script(t, each(empty+"surplus")), read, "read: received bytes after a response"},
		"twice":    {script(t, each(empty+empty)), read, "read: received bytes after a response"},
		"interim only": {script(t, each("HTTP/1.1 102 Processing\r\n\r\n")), timeout,
			"timeout: waiting for a response"},
		"body that never ends": {script(t, each("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd")), timeout,
			"timeout: receiving the response's body"},
		"silent": {script(t, func(_ int, _ net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) }), timeout,
			"timeout: waiting for a response"},
		"unavailable": {script(t, each("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")), status, ""},

		"FastCGI: closes": {fcgiScript(t, func(_ int, _ net.Conn, r *bufio.Reader) { readRequest(r) }), read,
			"read: connection closed before a response"},
		"FastCGI: closes midway":      {application(1, load.Stdout(plain)), read, "closed in the middle"},
		"FastCGI: closes in a header": {application(1, ok[:5]), read, "closed in the middle"},
		"FastCGI: another length": {application(0, load.Stdout("Content-Length: 3\n\nab")+load.End(0, 0)), read,
			"read: body of 2 bytes, but Content-Length is 3"},
		"FastCGI: too much":    {application(0, ok+"surplus"), read, "read: received bytes after a response"},
		"FastCGI: only STDERR": {application(0, load.Stderr("oh")), timeout, "timeout: waiting for a response"},
		"FastCGI: never ends":  {application(0, load.Stdout(plain)), timeout, "timeout: receiving the response's body"},
		"FastCGI: unavailable": {application(0, load.Stdout("Status: 503 No\r\n\r\n")+load.End(0, 0)), status, ""},

		"HTTP/2: resets": {streams(func(p *peer, id uint32) { p.WriteRSTStream(id, http2.ErrCodeInternal) }), read,
			"read: the server reset the stream: INTERNAL_ERROR"},
		"HTTP/2: closes": {http2Script(t, nil, func(p *peer) {
			p.request()
			p.Conn.(*net.TCPConn).CloseWrite() // what still comes is read: else the connection would be reset
			io.Copy(io.Discard, p.Conn)
		}), read, "closed before a response"},
		"HTTP/2: refuses": {streams(func(p *peer, id uint32) { p.WriteRSTStream(id, http2.ErrCodeRefusedStream) }), refused,
			"the server reset the stream: REFUSED_STREAM"},
		"HTTP/2: goes away": {streams(func(p *peer, _ uint32) { p.WriteGoAway(0, http2.ErrCodeNo, nil) }), refused,
			"the server closes each connection without a response (GOAWAY)"},
		"HTTP/2: bad frame": {streams(func(p *peer, _ uint32) { p.WriteRawFrame(http2.FramePing, 0, 0, []byte("x")) }), read,
			"FRAME_SIZE_ERROR"},
		"HTTP/2: not supported": {http2Script(t, nil, func(p *peer) {
			io.WriteString(p.Conn, strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 3))
		}), read, "FRAME_SIZE_ERROR: frame larger"},
		"HTTP/2: never ends": {streams(func(p *peer, id uint32) { p.headers(id, false, ":status", "200") }), timeout,
			"timeout: receiving the response's body"},
		"HTTP/2: silent": {http2Script(t, nil, func(p *peer) { io.Copy(io.Discard, p.Conn) }), timeout,
			"timeout: waiting for a response"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := load.Plan{URL: test.url, Connections: 2, Requests: 4, Timeout: timeoutFor(test.text)}
			if strings.HasPrefix(name, "HTTP/2") {
				p.Version = load.HTTP2
			}
			r := run(t, p)
			isEarly := name == "HTTP/2: not supported" // before a request: it costs a connection
			if n := test.kind(r.Errors); n == 0 || n > p.Requests+2 && !isEarly || n != r.Errors.Total() {
				t.Errorf("errors %+v", r.Errors)
			}
			testkit.Contains(t, r.Errors.First, test.text)
			responds := test.text == "" || strings.HasSuffix(test.text, "after a response")
			if responds != (r.Requests > 0) || r.FastCGI != nil && r.FastCGI.Resent != 0 {
				t.Errorf("%d requests, %+v", r.Requests, r.FastCGI)
			}
		})
	}
}

// timeoutFor returns a short timeout where a timeout is the expected error, and a longer one if a part
// of the response has to come before. Elsewhere even a busy machine must not cause one.
func timeoutFor(want string) time.Duration {
	switch {
	case strings.HasPrefix(want, "timeout: receiving"):
		return 2 * time.Second
	case strings.HasPrefix(want, "timeout:"):
		return 60 * time.Millisecond
	}
	return 10 * time.Second
}

// A server may respond before it has received the whole request, or close.
func TestResponseMayPrecedeTheRequestsEnd(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	for _, response := range []string{"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno", ""} {
		url := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, response)
			c.(*net.TCPConn).CloseWrite()
			<-over // closing at once would reset the connection
		})
		r := run(t, load.Plan{URL: url, Method: "POST", Body: strings.Repeat("a", 20<<20), Connections: 2,
			Requests: 4})
		if response != "" && (r.Requests == 0 || r.Statuses[413] != r.Requests || r.Errors.Total() != r.Requests ||
			r.Errors.First != "unexpected status 413") {
			t.Errorf("%d requests, statuses %v, errors %+v", r.Requests, r.Statuses, r.Errors)
		}
		if response == "" && (r.Requests != 0 || r.Errors.Read != r.Errors.Total() ||
			!strings.Contains(r.Errors.First, "closed while the request was being sent")) {
			t.Errorf("%d requests, errors %+v", r.Requests, r.Errors)
		}
	}
}

func TestBadPlansAreRejected(t *testing.T) {
	for want, p := range map[string]load.Plan{
		"https or fcgis for TLS":               {URL: "gopher://h/"},
		`"127.0.0.1:80": want http://host`:     {URL: "127.0.0.1:80"},
		`"unix:///s": want http://host`:        {URL: "unix:///s"},
		"invalid port":                         {URL: "http://127.0.0.1:x/"},
		"invalid request line":                 {URL: "http://127.0.0.1/", Method: "G T"},
		`want "Name: value"`:                   {URL: "http://127.0.0.1/", Header: []string{"X"}},
		"2 threads for 1 connections":          {URL: "http://127.0.0.1/", Connections: 1, Threads: 2},
		"-1 threads":                           {URL: "http://127.0.0.1/", Threads: -1},
		"want at most 1024":                    {URL: "http://127.0.0.1/", Pipeline: 1025},
		"want at most 1048576":                 {URL: "http://127.0.0.1/", Connections: 1<<20 + 1},
		"CPU -1":                               {URL: "http://127.0.0.1/", CPUs: []int{0, -1}},
		"use an Authorization header":          {URL: "http://u:secret@127.0.0.1/"},
		`"http://:80/": want http://host`:      {URL: "http://:80/"},
		`0.1%25lo]/": want http://host`:        {URL: "http://[::ffff:127.0.0.1%25lo]/"},
		"want a number up to 65535":            {URL: "http://127.0.0.1:65536/"},
		`header field "X: a\x00": want`:        {URL: "http://127.0.0.1/", Header: []string{"X: a\x00"}},
		"threads for -1 connections":           {URL: "http://127.0.0.1/", Connections: -1},
		"duration -1ns":                        {URL: "http://127.0.0.1/", Duration: -1},
		"warm-up -1ns":                         {URL: "http://127.0.0.1/", Warmup: -1},
		"timeout -1ns":                         {URL: "http://127.0.0.1/", Timeout: -1},
		"rate of -1 requests/s":                {URL: "http://127.0.0.1/", Pace: load.Constant(-1)},
		"-1 spare connections":                 {URL: "http://127.0.0.1/", Spare: -1},
		"parameters require FastCGI":           {URL: "http://127.0.0.1/", Params: []string{"A=b"}},
		`parameter "A": want NAME=value`:       {URL: "fcgi://127.0.0.1/", Params: []string{"A"}},
		`parameter "=b": want NAME=value`:      {URL: "fcgi://127.0.0.1/", Params: []string{"=b"}},
		`"fcgi://": want http`:                 {URL: "fcgi://"},
		`"fcgi:///run/a.sock": want http`:      {URL: "fcgi:///run/a.sock"},
		`"fcgi+unix://run/a.sock": want http`:  {URL: "fcgi+unix://run/a.sock"},
		`"fcgi+unix:a.sock": want http`:        {URL: "fcgi+unix:a.sock"},
		`"ftp+unix:///a.sock": want http`:      {URL: "ftp+unix:///a.sock"},
		`invalid socket path ""`:               {URL: "http+unix://"},
		`invalid socket path "/run/"`:          {URL: "http+unix:///run/:/"},
		`invalid socket path "/a\x00b"`:        {URL: "http+unix:///a%00b:/"},
		`invalid request path "b/c"`:           {URL: "http+unix:///a:b/c"},
		"has 108 bytes: the system allows 107": {URL: "http+unix:///" + strings.Repeat("s", 107)},
		"Authorization":                        {URL: "http+unix://u:secret@/a"},
		`invalid request line "G T" "/"`:       {URL: "fcgi://127.0.0.1/", Method: "G T"},
		`port "65536": want a number`:          {URL: "fcgi://127.0.0.1:65536/"},
		"are different servers":                {URL: "http://127.0.0.1/", List: []load.Request{{}, {URL: "http://127.0.0.2:1/"}}},
		"FastCGI allows one":                   {URL: "fcgi://127.0.0.1/", Pipeline: 2},
		"cannot be combined with pipelining":   {URL: "http://127.0.0.1/", Pace: load.Constant(1), Think: 1},
		"expected status 99":                   {URL: "http://127.0.0.1/", Expect: load.Expect{Status: []int{99}}},
		`expected header field "a b"`:          {URL: "http://127.0.0.1/", Expect: load.Expect{Header: []string{"a b"}}},
		`template "{{x}}": want {{seq}}`:       {URL: "http://127.0.0.1/", Template: true, Body: "{{x}}"},
		`template "{{seq": want {{seq}}`:       {URL: "http://127.0.0.1/", Template: true, Body: "{{seq"},
		"want 0 or more of each":               {URL: "http://127.0.0.1/", PerConnection: -1},
	} {
		_, err := load.Run(context.Background(), p)
		if _, ok := errors.AsType[*load.PlanError](err); !ok || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A reason that applies to several parts is one text with the names of all and the worst figure.
func TestDoubtsOfSeveralPartsAreOneText(t *testing.T) {
	late := func(d time.Duration) *hist.Histogram {
		h := hist.New()
		h.RecordN(d, 100)
		return h
	}
	r := load.Result{Parts: []load.PartResult{
		{Name: "a", Generator: load.Generator{Busy: 0.92, Lag: late(time.Millisecond)}},
		{Name: "b", Generator: load.Generator{Busy: 0.1, Lag: late(time.Microsecond)}},
		{Name: "c", Generator: load.Generator{Busy: 0.95, Lag: late(2 * time.Millisecond)}},
	}}
	want := []string{
		"the generators on a and c were busy up to 95% of the time: they, not the server, may have limited the rate",
		"the generators on a and c were late: the latest sent 1 % of requests 2ms or more after they were due, although a connection was free",
	}
	testkit.Equal(t, r.Doubts(), want)
	r.Parts = r.Parts[:1]
	want = []string{
		"the generator on a was busy 92% of the time: it, not the server, may have limited the rate",
		"the generator on a was late: it sent 1 % of requests 1ms or more after they were due, although a connection was free",
	}
	testkit.Equal(t, r.Doubts(), want)
}

// The server was too slow only if more requests lack a response than are in flight in any case.
// Those that failed are errors.
func TestRequestsInFlightAtTheEndAreNoDoubt(t *testing.T) {
	const tooSlow = "of 100 due requests, 80 had a response and 20 were in flight at the end: the server was too slow for the rate, or 8 connections were too few"
	for name, test := range map[string]struct {
		min, max, warmup float64 // seconds; the latencies are evenly distributed
		errors           load.Errors
		want             []string
	}{
		"400 ms each":          {min: 0.4, max: 0.4},
		"a growing queue":      {min: 0.01, max: 0.4, want: []string{tooSlow}},
		"400 ms, and a warmup": {min: 0.4, max: 0.4, warmup: 1, want: []string{tooSlow}},
		"errors":               {min: 0.01, max: 0.01, errors: load.Errors{Read: 10, Write: 5, Refused: 5}},
		"timeouts":             {min: 0.01, max: 0.01, errors: load.Errors{Timeout: 20}, want: []string{tooSlow}},
	} {
		r := load.Result{Due: 100, Requests: 80, InFlight: 20, Seconds: 2, Warmup: test.warmup, Connections: 8,
			Latency: hist.New(), Errors: test.errors}
		for i := range 80 {
			r.Latency.Record(time.Duration((test.min + (test.max-test.min)*float64(i)/79) * 1e9))
		}
		testkit.Equal(t, r.Doubts(), test.want, name)
	}
}
