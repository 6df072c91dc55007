package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// readsAtPath reads the body unless the path forbids it. The query names how it ends.
func readsAtPath(w http.ResponseWriter, r *http.Request) {
	var b []byte
	var err error
	switch r.URL.Path {
	case "/unread":
	case "/flushed":
		flush(w, r)
	case "/error":
		writeError("x")(w, r)
	default:
		b, err = io.ReadAll(r.Body)
	}
	fmt.Fprintf(w, "%s %s%v", r.URL.Path, shorten(b), err)
	if end := endings[r.URL.RawQuery]; end != nil {
		end()
	}
}

// fcgiHostile is a stream of a web server that breaks rules, or does what few web servers do.
type fcgiHostile struct {
	name     string
	begins   string // is sent first, up to a response
	text     string
	want     string // what comes back until the connection is closed; it may come in any order
	maxBytes int    // MaxHeaderBytes
}

const (
	fcgiValues   = `10 "\x0f\x01FCGI_MPXS_CONNS0"`
	fcgiTooLarge = "1: 431 431 Request Header Fields Too Large: parameters too large"
	fcgiWrong    = "1: 400 400 Bad Request: malformed parameters"
	fcgiCutOff   = "1: 400 400 Bad Request: incomplete request head"
	fcgiHello    = "1: 200 / hello<nil>"
	fcgiEmpty    = "1: 200 / <nil>"
)

// inStdin returns a POST of "hello" with records within its STDIN.
func inStdin(records string) string {
	return sized(5) + rec(stdinStream, 1, "he") + records + inRecords(stdinStream, 1, 9, "llo")
}

func fcgiInterleaved() []fcgiHostile {
	const flood = 3000
	two := fcgiRequest{id: 2, uri: "/two", body: "xxxxx"}.String()
	all := []fcgiHostile{
		{name: "in STDIN", text: inStdin(two), want: "2 ended as 1; " + fcgiHello},
		{name: "served after an abort", text: begins(1, true) + begins(2, true) + abort + two,
			want: "2 ended as 1; 1 ended as 0; 2: 200 /two xxxxx<nil>"},
	}
	for record, reply := range map[string]string{question: fcgiValues, rec(getValues, 0, ""): `10 ""`,
		rec(99, 0, ""): `11 "c\x00\x00\x00\x00\x00\x00\x00"`, begins(2, true): "2 ended as 1"} {
		all = append(all, fcgiHostile{name: "flood of records that get replies",
			text: inStdin(strings.Repeat(record, flood)), want: strings.Repeat(reply+"; ", flood) + fcgiHello})
	}
	return all
}

func fcgiMisframed() []fcgiHostile {
	list := func(content string) string {
		return begins(1, true) + inRecords(paramsStream, 1, largestContent, content) + rec(stdinStream, 1, "")
	}
	pairs := func(n int) string { return nameValues(append(fcgiRequest{}.list(), fcgiFields(n)...)...) }
	large := func(size int) string {
		return fcgiRequest{params: []string{"HTTP_X", strings.Repeat("x", size)}}.String()
	}
	const most = http.DefaultMaxHeaderBytes
	return []fcgiHostile{
		{name: "wrong length", text: list("\xff\xff\xff\xff\x7f"+strings.Repeat("x", 60000)) + aGET("/next"),
			want: fcgiWrong},
		{name: "record before any request", text: "\x01\x04\x00\x01\xff\xff\x00\x00"},
		{name: "longer than what follows", text: begins(1, true) + "\x01\x04\x00\x01\xff\xff\x00\x00abc",
			want: fcgiCutOff},
		{name: "long GET_VALUES", text: rec(getValues, 0, strings.Repeat("x", 5000)) + aGET("/")},
		{name: "GET_VALUES that lies", text: rec(getValues, 0, "\xff\xff\xff\xff") + aGET("/"),
			want: `10 ""; ` + fcgiEmpty},
		{name: "1000 parameters", text: list(pairs(1000)), want: fcgiEmpty},
		{name: "pairs that are no fields", text: list(pairs(0) + strings.Repeat("\x00\x00", 400_000)), want: fcgiEmpty},
		{name: "repeated type", text: list(pairs(0) + strings.Repeat(nameValues("CONTENT_TYPE", "a/b"), 50_000)),
			want: fcgiEmpty},
		{name: "list of 1 MB", text: large(most - 1000), want: fcgiEmpty},
		{name: "larger list", text: large(most+5000) + aGET("/next"), want: fcgiTooLarge},
		{name: "list in small records", text: begins(1, true) + strings.Repeat(rec(paramsStream, 1, "x"), 200_000),
			want: fcgiTooLarge},
		{name: "records for others", text: begins(1, true) + strings.Repeat(rec(stdinStream, 9, "stranger"), 100_000),
			want: fcgiTooLarge},
		{name: "endless DATA", text: fcgiRequest{}.head() + strings.Repeat(rec(dataStream, 1, "data"), 200_000),
			want: fcgiTooLarge},
		{name: "list within a small limit", text: large(4500), want: fcgiEmpty, maxBytes: 1 << 10},
		{name: "list beyond a small limit", text: large(6000), want: fcgiTooLarge, maxBytes: 1 << 10},
	}
}

func fcgiGarbage() (all []fcgiHostile) {
	for _, garbage := range []string{get, "\x00", "\x01\x00\x00\x01\x00\x00\x00\x00", strings.Repeat("\xff", 100_000)} {
		all = append(all, fcgiHostile{name: "garbage", text: garbage},
			fcgiHostile{name: "garbage behind a request", text: aGET("/") + garbage, want: fcgiEmpty},
			fcgiHostile{name: "garbage behind a question", text: question + garbage, want: fcgiValues},
			fcgiHostile{name: "garbage in a request", text: begins(1, true) + garbage})
	}
	return append(all, []fcgiHostile{
		// the end of PARAMS comes before the end of STDIN, and each comes once
		{name: "STDIN before PARAMS", text: begins(1, true) + rec(stdinStream, 1, "x")},
		{name: "streams behind the request", text: aGET("/") + rec(stdinStream, 1, "more") +
			rec(paramsStream, 1, "more") + aGET("/"), want: fcgiEmpty + "; " + fcgiEmpty},
		{name: "PARAMS behind their end", text: fcgiRequest{}.head() + rec(paramsStream, 1, nameValues("A", "b")) +
			rec(paramsStream, 1, "") + rec(stdinStream, 1, "")},
		{name: "PARAMS in STDIN", text: inStdin(rec(paramsStream, 1, "more")), want: fcgiHello},
		// a web server that has closed its sending side still gets its responses
		{name: "half-closed", text: aGET("/1") + aPOST("2"), want: "1: 200 /1 <nil>; 1: 200 / 2<nil>"},
		{name: "half-closed before STDIN", text: fcgiRequest{}.head(), want: fcgiCutOff},
		{name: "half-closed after BEGIN_REQUEST", text: begins(1, true), want: fcgiCutOff},
		{name: "half-closed in the second list", text: aGET("/") + fcgiRequest{id: 2}.head()[:30],
			want: fcgiEmpty + "; 2: 400 400 Bad Request: incomplete request head"},
		{name: "half-closed after an abort", text: begins(3, true) + rec(abortRequest, 3, "") + "\x01",
			want: "3 ended as 0"},
		{name: "half-closed in STDIN", text: sized(5) + rec(stdinStream, 1, "he"),
			want: "1: 200 / hefcgi: connection to web server closed"},
	}...)
}

// fcgiStrangers are streams with records that belong to no request, or that only applications send.
func fcgiStrangers() (all []fcgiHostile) {
	const unknown = `11 "\xc8\x00\x00\x00\x00\x00\x00\x00"`
	for name, evil := range map[string]string{
		"unknown ids": rec(stdinStream, 7, aGET("/smuggled")) + rec(paramsStream, 8, aGET("/smuggled")) +
			rec(stdinStream, 9, ""),
		"an application's": rec(endRequest, 1, "\x00\x00\x00\x00\x00\x00\x00\x00") +
			rec(stdoutStream, 1, "Status: 200\r\n\r\nx") + rec(stdoutStream, 1, "") + rec(stderrStream, 1, "x") +
			rec(getValuesResult, 1, "") + rec(unknownType, 1, ""),
		"a filter's DATA":     inRecords(dataStream, 1, 1000, strings.Repeat("data", 1000)),
		"aborts of other ids": rec(abortRequest, 2, "") + padded(abortRequest, 65535, "", 255),
	} {
		all = append(all,
			fcgiHostile{name: name, text: evil + begins(1, true) + evil + aGET("/")[16:] + evil + aGET("/"),
				want: fcgiEmpty + "; " + fcgiEmpty},
			fcgiHostile{name: name + ", often", text: inStdin(strings.Repeat(evil, 2000)), want: fcgiHello})
	}
	other := rec(paramsStream, 7, "x") + rec(stdinStream, 7, "") + aGET("/")
	return append(all, []fcgiHostile{
		{name: "other role", text: rec(beginRequest, 7, "\x00\x02\x01\x00\x00\x00\x00\x00") + other,
			want: "7 ended as 3; " + fcgiEmpty},
		{name: "other role, not kept", text: rec(beginRequest, 7, "\x01\x01\x00\x00\x00\x00\x00\x00") + other,
			want: "7 ended as 3"},
		{name: "in STDIN", text: inStdin(question + rec(200, 0, "xyz") + padded(paramsStream, 0,
			strings.Repeat("x", 20_000), 7)),
			want: fcgiHello + "; " + fcgiValues + "; " + unknown + `; 11 "\x04\x00\x00\x00\x00\x00\x00\x00"`},
	}...)
}

// fcgiAborts are streams with ABORT_REQUEST, and such whose handler leaves STDIN unread.
func fcgiAborts() (all []fcgiHostile) {
	for path, want := range map[string]string{"/": "1: 200 / hefcgi: request aborted by web server",
		"/unread": "1: 200 /unread <nil>"} {
		for _, length := range []string{"", "9"} {
			for _, behind := range []string{"", rec(stdinStream, 1, "late"), rec(stdinStream, 1, "")} {
				text := fcgiRequest{method: "POST", uri: path, params: []string{"CONTENT_LENGTH", length}}.head() +
					rec(stdinStream, 1, "he") + abort
				all = append(all, fcgiHostile{name: "in STDIN of " + path, begins: text, text: behind + aPOST("next"),
					want: want + "; 1: 200 / next<nil>"})
			}
		}
	}
	for keep, want := range map[bool]string{true: "1 ended as 0; 1: 200 / next<nil>", false: "1 ended as 0"} {
		all = append(all, fcgiHostile{name: "before the handler", want: want,
			text: begins(1, keep) + rec(paramsStream, 1, "\x01\x01A") + abort + aPOST("next")})
	}
	for _, left := range []string{"", padded(stdinStream, 1, "hello", 9), abort} {
		for id := 1; id <= 2; id++ { // END_REQUEST frees the id (section 3.3)
			all = append(all, fcgiHostile{name: "unread STDIN",
				begins: fcgiRequest{method: "POST", uri: "/unread"}.head() + rec(stdinStream, 1, "he"),
				text:   left + fcgiRequest{id: id, method: "POST", body: "hello", length: true}.String(),
				want:   fmt.Sprintf("1: 200 /unread <nil>; %d: 200 / hello<nil>", id)})
		}
	}
	for how := range endings { // which end the connection, but not the response before
		for path, want := range map[string]string{"/unread": "", "/flushed": "; cut off", "/error": "; cut off"} {
			for _, rest := range []string{"", "1234", "12345"} {
				request := fcgiRequest{uri: path + "?" + how, params: []string{"CONTENT_LENGTH", "5"}}
				all = append(all, fcgiHostile{name: how, text: aGET("/") + request.head() + rec(stdinStream, 1, rest),
					want: fcgiEmpty + want})
			}
		}
	}
	// what follows a body is dropped, but not for ever
	all = append(all, fcgiHostile{name: "excess of a body", want: "1: 200 /unread <nil>",
		begins: fcgiRequest{uri: "/unread", params: []string{"CONTENT_LENGTH", "1"}}.head() + rec(stdinStream, 1, "x"),
		text:   strings.Repeat(rec(stdinStream, 1, strings.Repeat("x", 1<<15)), 40) + aGET("/next")})
	return append(all, fcgiHostile{name: "not kept", want: "1: 200 / hefcgi: request aborted by web server",
		text: fcgiRequest{method: "POST", once: true}.head() + rec(stdinStream, 1, "he") + abort + aGET("/next")})
}

func fcgiHostileStreams() []fcgiHostile {
	return slices.Concat(fcgiInterleaved(), fcgiMisframed(), fcgiGarbage(), fcgiStrangers(), fcgiAborts())
}

// Records that are wrong, interleaved, or no request's get the replies of the specification or end
// the connection. They harm no other connection, on which a handler runs meanwhile.
func TestFCGIHostileStreamsGetDefinedResponses(t *testing.T) {
	entered, release := make(chan bool, 1), make(chan bool)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bystander" {
			entered <- true
			<-release
		}
		readsAtPath(w, r)
	})
	all := fcgiHostileStreams()
	for _, maxBytes := range []int{0, 1 << 10} {
		everyFCGIMode(t, func() *http.Server { return &http.Server{MaxHeaderBytes: maxBytes, Handler: handler} },
			func(s *fcgiSite) {
				bystander := s.peer()
				io.WriteString(bystander, aGET("/bystander"))
				<-entered
				for _, h := range all {
					if h.maxBytes == maxBytes {
						s.wantResponses(h)
					}
				}
				testkit.Equal(s, s.roundTrip(aGET("/new")).body, "/new <nil>", "a new connection")
				release <- true
				testkit.Equal(s, bystander.readResponse().body, "/bystander <nil>", "the bystander")
				testkit.Equal(s, bystander.roundTrip(aPOST("again")).body, "/ again<nil>", "the bystander, then")
			})
	}
}

// wantResponses fails unless the responses to a stream match. Replies to records in a body do not
// wait for each other.
func (s *fcgiSite) wantResponses(h fcgiHostile) {
	s.Helper()
	p := s.peer()
	defer p.Close()
	var all []string
	read := func() error {
		a, err := p.tryReadResponse()
		all, p.management = append(all, p.management...), nil
		switch {
		case err != nil && len(p.open) > 0:
			all = append(all, "cut off")
		case err != nil:
		case a.stdout == nil:
			all = append(all, fmt.Sprintf("%d ended as %d", a.id, a.status))
		default:
			all = append(all, fmt.Sprintf("%d: %d %s", a.id, a.code, a.body))
		}
		return err
	}
	if h.begins != "" {
		io.WriteString(p, h.begins)
		testkit.Check(s, read())
	}
	go func() {
		io.WriteString(p.Conn, h.text)
		closeWriteOf(p.Conn)
	}()
	err := read()
	for err == nil {
		err = read()
	}
	sorted := func(text string) []string { return slices.Sorted(strings.SplitSeq(text, "; ")) }
	what := fmt.Sprintf("%s %.300q", h.name, h.begins+h.text)
	testkit.Equal(s, errors.Is(err, os.ErrDeadlineExceeded), false, what, "is not closed")
	testkit.Equal(s, sorted(strings.Join(all, "; ")), sorted(h.want), what)
}

// Management records get their replies at once in each state of a connection. No further input and
// no end of a response is necessary.
func TestFCGIManagementRecordsGetRepliesAtAnyTime(t *testing.T) {
	// After GET_VALUES comes a large record of an unknown type.
	records := question + rec(99, 0, strings.Repeat("x", 10_000)) + padded(100, 7, "abc", 5)
	replies := []string{fcgiValues, `11 "c\x00\x00\x00\x00\x00\x00\x00"`, `11 "d\x00\x00\x00\x00\x00\x00\x00"`}
	begin, whole := begins(1, true), fcgiRequest{method: "POST", body: "hello", length: true}
	states := []struct{ name, text, response string }{
		{"idle", "", ""},
		{"begun", begin, ""},
		{"before STDIN", whole.head()[len(begin):], ""},
		{"in STDIN", rec(stdinStream, 1, "he"), ""},
		{"idle again", inRecords(stdinStream, 1, 9, "llo"), "/ hello<nil>"},
		{"in unread STDIN", fcgiRequest{method: "POST", uri: "/unread"}.head() + rec(stdinStream, 1, "he"),
			"/unread <nil>"},
		{"after that", rec(stdinStream, 1, ""), ""},
	}
	everyFCGIMode(t, handle(readsAtPath), func(s *fcgiSite) {
		for _, size := range []int{7, 1 << 20} { // of the pieces in which records arrive
			p := s.peer()
			write := func(text string) {
				for piece := range slices.Chunk([]byte(text), size) {
					p.Write(piece)
				}
			}
			for _, state := range slices.Concat(states, states) {
				write(state.text)
				if state.response != "" {
					testkit.Equal(s, p.readResponse().body, state.response)
				}
				write(records)
				for _, want := range replies {
					kind, id, content, err := p.record()
					if got := fmt.Sprintf("%d %q", kind, content); got != want || id != 0 || err != nil {
						s.Errorf("%s: %s for %d, %v", state.name, got, id, err)
					}
				}
			}
			p.Close()
		}
	})
}

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
					p := newFCGIPeer(t, s.in(t).connect())
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
