package fcgi

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// roomy is a limit that no vector reaches.
const roomy = 1<<16 - 1

// request makes what nginx sends: parameters in one record, padded to eight bytes.
func request(begin, list, body string) string {
	s := listed(begin, list)
	if body != "" {
		s += record(Stdin, 1, body, -len(body)&7)
	}
	return s + bodyEnd
}

// listed returns a request without its body.
func listed(begin, list string) string {
	return plain(BeginRequest, 1, begin) + record(Params, 1, list, -len(list)&7) + listEnd
}

const (
	ab   = "\x01\x01Ab"                    // A=b
	abcd = ab + "\x02\x80\x00\x00\x01CCd"  // and CC=d, its length in four bytes
	list = abcd + "\x00\x03xyz\x03\x00DDD" // and more
)

// Records of most requests.
var (
	begun   = plain(BeginRequest, 1, responder)
	listEnd = plain(Params, 1, "")
	bodyEnd = plain(Stdin, 1, "")
)

var requestVectors = []vector{
	{"nothing", "", ""},
	{"a GET of nginx", request(responder, abcd, ""), `1 keep=false in 1 ["A=b" "CC=d"] body "" empty`},
	{"a POST of nginx", request(keeping, list, "0123456789"),
		`1 keep=true in 1 ["A=b" "CC=d" "=xyz" "DDD="] body "0123456789" ended`},
	{"a name that straddles records", begun + record(Params, 1, list[:9], 3) + plain(Params, 1, list[9:]) + listEnd +
		bodyEnd, `1 keep=false in 2 ["A=b" "CC=d" "=xyz" "DDD="] body "" empty`},
	{"the greatest id, padding of 255 everywhere", record(BeginRequest, 65535, keeping, 255) +
		record(Params, 65535, ab, 255) + record(Params, 65535, "", 255) +
		record(Stdin, 65535, "x", 255) + record(Stdin, 65535, "", 255), `65535 keep=true in 1 ["A=b"] body "x" ended`},
	{"several requests on a connection", request(keeping, ab, "") + request(keeping, abcd, "x") +
		request(responder, list, ""),
		`1 keep=true in 1 ["A=b"] body "" empty; 1 keep=true in 1 ["A=b" "CC=d"] body "x" ended; 1 keep=false ` +
			`in 1 ["A=b" "CC=d" "=xyz" "DDD="] body "" empty`},
	{"cut off in the body", listed(responder, ab) + plain(Stdin, 1, "12345")[:10],
		`1 keep=false in 1 ["A=b"] body "12" cut off`},
	{"a list that lies", request(responder, "\x01\x7fAb", ""),
		`1 keep=false in 1 ["fcgi: parameter exceeds its list at 0"] body "" empty`},

	{"5.4: aborted before the list", begun + plain(AbortRequest, 1, "") + request(keeping, ab, ""),
		`aborted 1; 1 keep=true in 1 ["A=b"] body "" empty`},
	{"5.4: aborted behind the list, and behind its padding", begun +
		plain(Params, 1, ab) + record(Params, 1, "", 9) + record(AbortRequest, 1, "", 3) + request(keeping, abcd, "x"),
		`aborted 1; 1 keep=true in 1 ["A=b" "CC=d"] body "x" ended`},
	{"5.4: aborted in the body", listed(keeping, ab) + record(Stdin, 1, "xyz", 1) + plain(AbortRequest, 1, "") +
		request(responder, ab, ""),
		`1 keep=true in 1 ["A=b"] body "xyz" aborted; 1 keep=false in 1 ["A=b"] body "" empty`},
	{"an abort of nothing", plain(AbortRequest, 1, "") + request(responder, ab, ""),
		`1 keep=false in 1 ["A=b"] body "" empty`},

	{"4.1: GET_VALUES between any two records", between(record(GetValues, 0, "\x01\x00Q", 5)),
		`values ["Q="]; values ["Q="]; values ["Q="]; values ["Q="]; 1 keep=false in 1 ["A=b"] body "" empty; ` +
			`values ["Q="]`},
	{"GET_VALUES with an id", begun + plain(GetValues, 1, "\x01\x00Q") +
		listEnd + bodyEnd, `1 keep=false in 0 [] body "" empty`},
	{"4.2: such between any two records", between(record(12, 0, "abc", 5)),
		`unknown 12; unknown 12; unknown 12; unknown 12; 1 keep=false in 1 ["A=b"] body "" empty; unknown 12`},
	{"requests' types of the connection", plain(BeginRequest, 0, responder) + plain(AbortRequest, 0, "") +
		plain(EndRequest, 0, "12345678") + plain(UnknownType, 0, "12345678") + plain(GetValuesResult, 0, ""),
		`unknown 1; unknown 2; unknown 3; unknown 11; unknown 10`},
	{"streams of the connection, reported once each", plain(Params, 0, "abcdefghij") +
		record(Stdin, 0, "abcdefghij", 6) + plain(Stdout, 0, "") + request(responder, ab, ""),
		`unknown 4; unknown 5; unknown 6; 1 keep=false in 1 ["A=b"] body "" empty`},

	{"3.3: records of inactive ids", plain(Params, 7, list) + between(record(Stdin, 7, "abcdef", 2)),
		`1 keep=false in 1 ["A=b"] body "" empty`},
	{"3.3: such before a body", listed(responder, ab) + plain(Stdin, 7, bodyEnd+bodyEnd) + plain(Stdin, 1, "real") +
		bodyEnd, `1 keep=false in 1 ["A=b"] body "real" ended`},
	{"records that only applications send", between(plain(EndRequest, 1, "12345678") + plain(Stdout, 1, "x") +
		plain(Stderr, 1, "y") + plain(UnknownType, 1, "") + plain(GetValuesResult, 1, "")),
		`1 keep=false in 1 ["A=b"] body "" empty`},
	{"3.3: nothing counts before the beginning", plain(Params, 1, list) + listEnd + plain(Stdin, 1, "x") + bodyEnd +
		request(responder, ab, ""), `1 keep=false in 1 ["A=b"] body "" empty`},

	{"a second request behind the list, with a list of its own", begun + plain(Params, 1, ab) + listEnd +
		plain(BeginRequest, 2, keeping) + plain(Params, 2, abcd) + plain(Params, 2, "") + plain(Stdin, 2, "xxx") +
		plain(Stdin, 2, "") + plain(Stdin, 1, "y") + bodyEnd, `second 2; 1 keep=false in 1 ["A=b"] body "y" ended`},
	{"6.3: an authorizer's request, and ours behind it", plain(BeginRequest, 1, authorizer) +
		request(responder, list, "x")[16:] + request(responder, ab, ""),
		`misplaced 1 as 2 <nil>; 1 keep=false in 1 ["A=b"] body "" empty`},
	{"the same id begun twice", begun + plain(Params, 1, ab) +
		begun, "fcgi: repeated BEGIN_REQUEST for an active request at 28"},
	{"the body before the list", begun + plain(Stdin, 1, "xyz"), "fcgi: STDIN before the end of PARAMS at 16"},
	{"more of the list behind its end", begun + plain(Params, 1, ab) +
		record(Params, 1, "", 3) + plain(Params, 1, ab), "fcgi: PARAMS record after the end of PARAMS at 39"},
	{"5.1: a beginning that is too short", plain(GetValues, 0, "") + plain(BeginRequest, 1, responder[:7]),
		`values []; fcgi: BEGIN_REQUEST content is not 8 bytes long at 8`},
	{"HTTP", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "fcgi: unsupported FastCGI version at 0"},
	{"the longest message", begun + plain(EndRequest, 1, strings.Repeat("q", maxMessage)) + listEnd + bodyEnd,
		`1 keep=false in 0 [] body "" empty`},
	{"version 2 behind padding, seen at once", begun + record(Params, 1, ab, 7) + "\x02",
		"fcgi: unsupported FastCGI version at 35"},
	{"a message over the bound", begun +
		plain(GetValues, 0, strings.Repeat("q", maxMessage+1)), "fcgi: message too long at 16"},
	{"an error in the body", listed(responder, ab) + plain(Stdin, 1, "12345678") + plain(0, 0, ""),
		`fcgi: invalid record type 0 at 56; 1 keep=false in 1 ["A=b"] body "12345678" cut off`},
}

// between returns a request with another record before and after each of its own.
func between(r string) string {
	return r + begun + r + plain(Params, 1, ab) + r + record(Params, 1, "", 3) + r +
		bodyEnd + r
}

// The limit applies to all bytes from BEGIN_REQUEST to the end of the list. Exactly as many are
// accepted, and one more is rejected. Earlier bytes do not count.
func TestRequestLimitCountsAllBytes(t *testing.T) {
	before := plain(GetValues, 0, "") + plain(Params, 1, "stranger")
	head := plain(BeginRequest, 1, responder) + record(Params, 1, abcd, 4) + plain(Params, 7, "stranger") +
		plain(Params, 1, list)
	whole := len(head) + HeaderSize
	for _, behind := range []string{
		plain(Params, 1, "") + plain(Stdin, 1, ""),
		record(Params, 1, "", 200) + plain(Stdin, 1, strings.Repeat("x", 300)),
	} {
		for _, before := range []string{"", before} {
			in := []byte(before + head + behind)
			for limit := HeaderSize + 8; limit < whole+4; limit++ {
				event, err := firstEvent(in, limit)
				if limit >= whole {
					if event != Ready || err != nil {
						t.Errorf("%d of %d bytes allowed: event %d, %v", limit, whole, event, err)
					}
					continue
				}
				_, early := firstEvent(in[:len(before)+limit], limit) // it is known by then
				for _, err := range []error{err, early} {
					var e *Error
					if !errors.As(err, &e) || *e != (Error{len(before) + limit, true, "parameters too large"}) {
						t.Errorf("%d of %d bytes allowed: %v", limit, whole, err)
					}
				}
			}
		}
	}
}

// firstEvent returns the first event of a request other than ValuesRequested.
func firstEvent(in []byte, limit int) (event Event, err error) {
	var r Request
	for event = ValuesRequested; event == ValuesRequested && err == nil; {
		event, err = r.Next(in, limit)
	}
	return event, err
}

// Input before a request can be dropped, however much it is.
func TestDropReturnsBytesBeforeRequest(t *testing.T) {
	chatter := []byte(record(Stdin, 9, strings.Repeat("x", 1000), 200) + plain(GetValues, 0, "") +
		record(200, 0, "abc", 1))
	in := append(bytes.Repeat(chatter, 500), request(responder, ab, "")...)
	var r Request
	var b []byte
	events := make(map[Event]int)
	for held := 0; len(in) > 0; {
		b = extend(b, in[:min(len(in), 700)])
		in = in[min(len(in), 700):]
		for event := Ready; event != More && events[Ready] == 0; {
			event = testkit.Value(r.Next(b, 64))(t)
			events[event]++
			b = b[r.Drop():]
		}
		if held = max(held, len(b)); held > 700+HeaderSize {
			t.Fatalf("%d bytes held", held)
		}
	}
	if events[ValuesRequested] != 500 || events[Unknown] != 500 || events[Ready] != 1 ||
		string(r.Params[0].In(b)) != ab {
		t.Errorf("events %v, parameters at %v", events, r.Params)
	}
	testkit.Equal(t, r.Drop(), 0, "bytes of a request")
}

// If nothing is pending, a connection waits for a request, otherwise for the rest of one.
func TestPendingReportsIncompleteInput(t *testing.T) {
	a := application{TB: t, limit: roomy, small: true}
	for _, step := range []struct {
		more string
		want bool
	}{
		{"", false},
		{plain(GetValues, 0, ""), false},
		{plain(Stdin, 7, "abc")[:9], true},
		{plain(Stdin, 7, "abc")[9:], false},
		{record(Stdin, 7, "abc", 2)[:9], true},
		{record(Stdin, 7, "abc", 2)[9:12], true},
		{record(Stdin, 7, "abc", 2)[12:], false},
		{plain(BeginRequest, 1, authorizer), false},
		{plain(BeginRequest, 1, keeping), true},
		{plain(AbortRequest, 1, ""), false},
		{listed(keeping, ab), true},
		{plain(Stdin, 1, ""), false},
		{listed(keeping, abcd), true},
		{record(Stdin, 1, "xyz", 5), true},
		{record(Stdin, 1, "", 3)[:10], true},
		{"\xff", false},
	} {
		if !a.receive([]byte(step.more)) {
			t.Fatal(a.String())
		}
		testkit.Equal(t, a.request.Pending(), step.want, "behind", step.more)
	}
}

// fuzzMax limits the run of one input at every split to a few milliseconds.
const fuzzMax = 600

// byInput adds vectors to the seeds of a fuzz target, and returns them by their input.
func byInput(f *testing.F, vectors []vector, more ...any) map[string]vector {
	all := make(map[string]vector)
	for _, v := range vectors {
		all[v.in] = v
		f.Add(append([]any{[]byte(v.in)}, more...)...)
	}
	return all
}

func FuzzRequest(f *testing.F) {
	vectors := byInput(f, requestVectors, uint16(roomy))
	captures, err := filepath.Glob("testdata/*.fcgi")
	if err != nil || len(captures) == 0 {
		f.Fatal(captures, err)
	}
	for _, file := range captures {
		in := testkit.Value(os.ReadFile(file))(f)
		f.Add(in, uint16(len(in)))
	}
	f.Fuzz(func(t *testing.T, in []byte, limit uint16) {
		v, isVector := vectors[string(in)]
		if len(in) > fuzzMax && !isVector || limit == 0 {
			return
		}
		got := testkit.EverySplit(t, in, readRequests(t, int(limit), false))
		testkit.Equal(t, testkit.EverySplit(t, in, readRequests(t, int(limit), true)), got, "small, limit", limit)
		if isVector && limit == roomy {
			testkit.Equal(t, got, v.want, v.why)
		}
		compareNetHTTP(t, in)
	})
}

func FuzzPairs(f *testing.F) {
	vectors := byInput(f, pairVectors)
	f.Fuzz(func(t *testing.T, list []byte) {
		if v, isVector := vectors[string(list)]; isVector {
			testkit.Equal(t, pairs(extend(nil, list)), v.want, v.why)
		}
		if err := checkPairs(list); err != nil {
			t.Errorf("%q: %v", list, err)
		}
	})
}

// capturedFiles hold what nginx sends for a simple GET and for one with 30 fields.
var capturedFiles = map[string]string{"GET": "testdata/get-keep.fcgi", "30 fields": "testdata/headers-keep.fcgi"}

// readRequest reads a request that has arrived whole, and its parameters.
func readRequest(tb testing.TB, r *Request, in []byte) (pairs int) {
	r.Done()
	if event, err := r.Next(in, 1<<16); event != Ready || err != nil || r.Size != len(in) || len(r.Params) != 1 {
		tb.Fatal(event, err)
	}
	list := r.Params[0].In(in)
	for at := 0; at < len(list); pairs++ {
		_, next, err := NextPair(list, at)
		testkit.Must(tb, err)
		at = next
	}
	return pairs
}

func TestReadingAllocatesNothing(t *testing.T) {
	for name, file := range capturedFiles {
		in := testkit.Value(os.ReadFile(file))(t)
		var r Request
		testkit.Equal(t, readRequest(t, &r, in) >= 20, true, name, "has 20 parameters")
		testkit.Equal(t, testing.AllocsPerRun(100, func() { readRequest(t, &r, in) }), 0, name)
	}
	// The same byte by byte, in several records, with others between.
	in := []byte(between(record(Stdin, 7, "stranger", 5) + plain(Data, 1, "data")))
	var r Request
	trickle := func() {
		r.Reset()
		for n := 1; ; n++ {
			event, err := r.Next(in[:n], 1<<16)
			if event == Ready {
				return
			}
			if err != nil || n == len(in) {
				t.Fatal(event, err)
			}
		}
	}
	testkit.Equal(t, testing.AllocsPerRun(10, trickle), 0, "byte by byte")
}
