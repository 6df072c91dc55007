package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// underAttack runs an attack on one connection while the handler of another one runs, over every
// kind of connection. The other connection must be served. After the test nothing of the server may
// be left.
func underAttack(t *testing.T, maxParams int, attack func(s *fcgiSite)) {
	t.Helper()
	entered, release := make(chan bool, 1), make(chan bool)
	settings := func() *http.Server {
		return &http.Server{MaxHeaderBytes: maxParams,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/bystander" {
					entered <- true
					<-release
				}
				b, err := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %s%v", r.URL.Path, shorten(b), err)
			})}
	}
	everyFCGIMode(t, settings, func(s *fcgiSite) {
		bystander := s.peer()
		bystander.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(bystander, aGET("/bystander"))
		<-entered
		attack(s)
		if a := s.roundTrip(aGET("/new")); a.body != "/new <nil>" {
			s.Errorf("a new connection got %v", a)
		}
		release <- true
		if a := bystander.readResponse(); a.body != "/bystander <nil>" {
			s.Errorf("the bystander got %v", a)
		}
		if a := bystander.roundTrip(aPOST("again")); a.body != "/ again<nil>" {
			s.Errorf("the bystander got %v, then", a)
		}
	})
}

// responsesTo sends text, half-closes, and describes all that comes back until the connection is
// closed.
func (s *fcgiSite) responsesTo(text string) string {
	s.Helper()
	p := s.peer()
	defer p.Close()
	go func() {
		io.WriteString(p.Conn, text)
		p.Conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	return p.rest()
}

// rest returns all that comes until the connection is closed.
func (p *fcgiPeer) rest() string {
	p.Helper()
	var all []string
	for {
		a, err := p.tryReadResponse()
		if timedOutErr(err) {
			p.Errorf("not closed; so far %q", all)
		}
		all = append(all, p.management...)
		p.management = nil
		switch {
		case err != nil && len(p.open) > 0:
			return strings.Join(append(all, "cut off"), "; ")
		case err != nil:
			return strings.Join(all, "; ")
		case a.stdout == nil:
			all = append(all, fmt.Sprintf("%d ended as %d", a.id, a.status))
		default:
			all = append(all, fmt.Sprintf("%d: %d %s", a.id, a.code, a.body))
		}
	}
}

// want fails unless the responses to text match.
func (s *fcgiSite) want(text, want string) {
	s.Helper()
	if got := s.responsesTo(text); got != want {
		s.Errorf("to %.300q\ngot %s\nwant %s", text, got, want)
	}
}

// wantInAnyOrder is want for replies to records in a body, which do not wait for each other.
func (s *fcgiSite) wantInAnyOrder(text string, want ...string) {
	s.Helper()
	got := strings.Split(s.responsesTo(text), "; ")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.Errorf("to %.300q\ngot %q\nwant %q", text, got, want)
	}
}

// A second request on a connection that is busy with one is refused, without harm to the first.
func TestFCGIInterleavedRequestIsRefused(t *testing.T) {
	one, two := fcgiRequest{id: 1, method: "POST", body: "hello", length: true},
		fcgiRequest{id: 2, uri: "/two", body: "xxxxx"}
	list := func(a fcgiRequest) string { return nameValues(a.list()...) }
	mixed := func(a, b []string) (s string) { // records of both, alternating
		for i := range a {
			s += a[i] + b[i]
		}
		return s
	}
	records := func(a fcgiRequest) []string {
		l := list(a)
		return []string{begins(a.id, true), rec(paramsStream, a.id, l[:9]), rec(paramsStream, a.id, l[9:]),
			rec(paramsStream, a.id, ""),
			rec(stdinStream, a.id, a.body[:2]), rec(stdinStream, a.id, a.body[2:]), rec(stdinStream, a.id, "")}
	}
	underAttack(t, 0, func(s *fcgiSite) {
		const refused, served = "2 ended as 1", "1: 200 / hello<nil>"
		s.want(mixed(records(one), records(two)), refused+"; "+served)
		s.want(one.head()+begins(2, true)+rec(stdinStream, 2, "x")+inRecords(stdinStream, 1, 3, "hello"),
			refused+"; "+served)
		s.wantInAnyOrder(one.head()+rec(stdinStream, 1, "he")+two.String()+inRecords(stdinStream, 1, 3, "llo"),
			served, refused)
		s.want(begins(1, true)+begins(2, true)+abort+two.String(), refused+"; 1 ended as 0; 2: 200 /two xxxxx<nil>")
		s.want(begins(1, true)+strings.Repeat(begins(3, true)+rec(abortRequest, 3, ""), 2)+one.String()[16:],
			"3 ended as 1; 3 ended as 1; "+served)
	})
}

// BEGIN_REQUEST with an active id ends the connection, because the other records would be
// ambiguous.
func TestFCGIReusedActiveIDEndsConnection(t *testing.T) {
	a := fcgiRequest{method: "POST", body: "hello", length: true}
	underAttack(t, 0, func(s *fcgiSite) {
		s.want(begins(1, true)+begins(1, true)+aGET("/"), "")
		s.want(a.head()[:40]+a.String(), "")
		s.want(a.head()+a.String(), "")
		s.want(a.head()+rec(stdinStream, 1, "he")+a.String(),
			"1: 200 / hefcgi: repeated BEGIN_REQUEST for an active request")
		// the id is no longer active
		s.want(a.String()+a.String(), "1: 200 / hello<nil>; 1: 200 / hello<nil>")
		if !strings.Contains(s.logged.String(), "closed: repeated BEGIN_REQUEST for an active request") {
			s.Errorf("logged %q", s.logged)
		}
	})
}

func TestFCGIWrongLengthsAreRejected(t *testing.T) {
	list := func(content string) string {
		return begins(1, true) + rec(paramsStream, 1, content) + rec(paramsStream, 1, "") + rec(stdinStream, 1, "")
	}
	const refused = "1: 400 400 Bad Request: malformed parameters"
	underAttack(t, 0, func(s *fcgiSite) {
		for _, content := range []string{
			"\x7f", "\x01\x7fA", "\x7f\x01Ab", "\xff\xff\xff\xff\x01Ab", "\x01\xff\xff\xff\xffAb",
			"\xff\xff\xff\xff\xff\xff\xff\xff", "\x80\x00\x00", "\x01\x80\x00\x00",
			"\xff\xff\xff\xff\x7f" + strings.Repeat("x", 60000),
		} {
			s.want(list(content)+aGET("/next"), refused)
		}
		// a record before any request
		s.want("\x01\x04\x00\x01\xff\xff\x00\x00", "")
		// longer than what follows
		s.want(begins(1, true)+"\x01\x04\x00\x01\xff\xff\x00\x00abc", "1: 400 400 Bad Request: incomplete request head")
		s.want(rec(beginRequest, 1, "\x00\x01\x01\x00\x00\x00\x00"), "")
		s.want(rec(beginRequest, 1, "\x00\x01\x01\x00\x00\x00\x00\x00\x00"), "")
		s.want(rec(getValues, 0, strings.Repeat("x", 5000))+aGET("/"), "")
		s.want(rec(getValues, 0, "\xff\xff\xff\xff")+aGET("/"), `10 ""; 1: 200 / <nil>`)
		s.want(fcgiRequest{method: "POST", params: []string{"CONTENT_LENGTH",
			"9223372036854775807"}}.head()+inRecords(stdinStream, 1, 9, "hello"), "1: 200 / hellounexpected EOF")
		s.want(fcgiRequest{method: "POST", params: []string{"CONTENT_LENGTH", "3"}}.head()+inRecords(stdinStream, 1, 9,
			"hello"), "1: 200 / helfcgi: body longer than CONTENT_LENGTH")
	})
}

// 1 MB of parameters is accepted if the limit allows it, and more is rejected. Sending it in the
// smallest records gains nothing.
func TestFCGIParamsAreLimitedInBytes(t *testing.T) {
	const most = http.DefaultMaxHeaderBytes
	large := func(size int) string {
		return fcgiRequest{params: []string{"HTTP_X", strings.Repeat("x", size)}}.String()
	}
	const refused = "1: 431 431 Request Header Fields Too Large: parameters too large"
	underAttack(t, 0, func(s *fcgiSite) {
		s.want(large(most-1000), "1: 200 / <nil>")
		s.want(large(most+5000)+aGET("/next"), refused)
		s.want(begins(1, true)+strings.Repeat(rec(paramsStream, 1, "x"), 200_000), refused)
		s.want(begins(1, true)+strings.Repeat(rec(stdinStream, 9, "stranger"), 100_000), refused)
		s.want(fcgiRequest{}.head()+strings.Repeat(rec(dataStream, 1, "data"), 200_000), refused)
	})
	underAttack(t, 1<<10, func(s *fcgiSite) {
		s.want(large(4500), "1: 200 / <nil>")
		s.want(large(6000), refused)
	})
}

func TestFCGIParamsAreLimitedInNumber(t *testing.T) {
	pairs := func(n int) string { return nameValues(append(fcgiRequest{}.list(), fcgiFields(n)...)...) }
	list := func(content string) string {
		return begins(1, true) + inRecords(paramsStream, 1, largestContent, content) + rec(stdinStream, 1, "")
	}
	underAttack(t, 0, func(s *fcgiSite) {
		s.want(list(pairs(1000)), "1: 200 / <nil>")
		s.want(list(pairs(1001))+aGET("/next"), "1: 400 400 Bad Request: too many parameters")
		// they become no fields
		s.want(list(pairs(0)+strings.Repeat("\x00\x00", 400_000)), "1: 200 / <nil>")
		s.want(list(pairs(0)+strings.Repeat(nameValues("CONTENT_TYPE", "a/b"), 50_000)), "1: 200 / <nil>")
	})
}

func TestFCGIGarbageEndsConnection(t *testing.T) {
	underAttack(t, 0, func(s *fcgiSite) {
		for _, garbage := range []string{
			"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", "\x02" +
				aGET("/")[1:], "\x00", "\x01\x00\x00\x01\x00\x00\x00\x00",
			strings.Repeat("\xff", 100_000), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		} {
			s.want(garbage, "")
			s.want(aGET("/before")+garbage, "1: 200 /before <nil>")
			s.want(question+garbage, `10 "\x0f\x01FCGI_MPXS_CONNS0"`)
			s.want(begins(1, true)+garbage, "")
		}
		for _, part := range []int{1, 3, 7, 8, 9, 15} {
			s.want(aGET("/")[:part], "")
		}
	})
}

// Records that do not belong to a request get the replies of the specification, however many they
// are.
func TestFCGIManagementRecordsGetReplies(t *testing.T) {
	const valuesReply = `10 "\x0f\x01FCGI_MPXS_CONNS0"`
	underAttack(t, 0, func(s *fcgiSite) {
		s.want(question+aGET("/"), valuesReply+"; 1: 200 / <nil>")
		s.want(aGET("/")+question, "1: 200 / <nil>; "+valuesReply)
		s.want(rec(getValues, 0, nameValues("FCGI_MPXS_CONNS", "", "X", "y")), valuesReply)
		s.want(rec(getValues, 0, ""), `10 ""`)
		s.want(rec(200, 0, "xyz"), `11 "\xc8\x00\x00\x00\x00\x00\x00\x00"`)
		s.want(rec(stdinStream, 0, "xyz")+rec(beginRequest, 0, "xyz"),
			`11 "\x05\x00\x00\x00\x00\x00\x00\x00"; 11 "\x01\x00\x00\x00\x00\x00\x00\x00"`)
		s.wantInAnyOrder(sized(5)+rec(stdinStream, 1, "he")+question+rec(200, 0, "xyz")+padded(paramsStream, 0,
			strings.Repeat("x", 20_000), 7)+inRecords(stdinStream, 1, 9, "llo"),
			"1: 200 / hello<nil>", valuesReply, `11 "\xc8\x00\x00\x00\x00\x00\x00\x00"`,
			`11 "\x04\x00\x00\x00\x00\x00\x00\x00"`)
		for _, role := range []string{"\x00\x00", "\x00\x02", "\x00\x03", "\x01\x01"} {
			s.want(rec(beginRequest, 7, role+"\x01\x00\x00\x00\x00\x00")+rec(paramsStream, 7, "x")+rec(stdinStream, 7,
				"")+aGET("/"), "7 ended as 3; 1: 200 / <nil>")
			s.want(rec(beginRequest, 7, role+"\x00\x00\x00\x00\x00\x00")+rec(paramsStream, 7, "x")+aGET("/"),
				"7 ended as 3")
		}
	})
}

// The same holds in a body.
func TestFCGIGetValuesFloodInBodyKeepsNothing(t *testing.T) {
	for name, record := range map[string]string{"questions": question, "empty questions": rec(getValues, 0, ""),
		"unknown types": rec(99, 0, ""), "other requests": begins(2, true)} {
		t.Run(name, func(t *testing.T) {
			underAttack(t, 0, func(s *fcgiSite) {
				for _, n := range []int{20, 20_000} {
					got := s.responsesTo(sized(5) + rec(stdinStream, 1, "he") + strings.Repeat(record, n) +
						inRecords(stdinStream, 1, 9, "llo"))
					if replies := strings.Count(got, "; "); !strings.Contains(got, "1: 200 / hello<nil>") ||
						replies != n {
						s.Errorf("%d: %d replies: %.200s", n, replies, got)
					}
				}
			})
		})
	}
}

// Records of inactive requests are ignored, whatever they look like.
func TestFCGIRecordsForUnknownIDsAreIgnored(t *testing.T) {
	evil := rec(stdinStream, 7, aGET("/smuggled")) + rec(paramsStream, 8, aGET("/smuggled")) + rec(stdinStream, 9, "")
	underAttack(t, 0, func(s *fcgiSite) {
		s.want(evil+aGET("/"), "1: 200 / <nil>")
		s.want(strings.Repeat(evil, 20_000)+aGET("/"), "1: 200 / <nil>")
		s.want(begins(1, true)+strings.Repeat(evil, 100)+aGET("/")[16:], "1: 200 / <nil>")
		s.want(fcgiRequest{}.head()+evil+rec(stdinStream, 1, ""), "1: 200 / <nil>")
		s.want(sized(5)+rec(stdinStream, 1, "he")+strings.Repeat(evil, 20_000)+inRecords(stdinStream, 1, 9, "llo"),
			"1: 200 / hello<nil>")
	})
}

// Records that only applications send are ignored, too.
func TestFCGIApplicationRecordsAreIgnored(t *testing.T) {
	evil := rec(endRequest, 1, "\x00\x00\x00\x00\x00\x00\x00\x00") + rec(stdoutStream, 1, "Status: 200\r\n\r\nx") +
		rec(stdoutStream, 1, "") +
		rec(stderrStream, 1, "x") + rec(getValuesResult, 1, "") + rec(unknownType, 1, "")
	underAttack(t, 0, func(s *fcgiSite) {
		s.want(evil+begins(1, true)+evil+aGET("/")[16:]+evil+aGET("/"), "1: 200 / <nil>; 1: 200 / <nil>")
		s.want(sized(5)+evil+rec(stdinStream, 1, "he")+evil+inRecords(stdinStream, 1, 9, "llo")+evil,
			"1: 200 / hello<nil>")
	})
}

// DATA is for filters, and this is a responder.
func TestFCGIDataRecordsAreIgnored(t *testing.T) {
	data := inRecords(dataStream, 1, 1000, strings.Repeat("data", 1000))
	underAttack(t, 0, func(s *fcgiSite) {
		s.want(begins(1, true)+data+aGET("/")[16:]+aGET("/"), "1: 200 / <nil>; 1: 200 / <nil>")
		s.want(sized(5)+data+rec(stdinStream, 1, "he")+data+inRecords(stdinStream, 1, 9, "llo")+data+aGET("/"),
			"1: 200 / hello<nil>; 1: 200 / <nil>")
	})
}

func TestFCGIAbortOfUnknownIDsIsIgnored(t *testing.T) {
	evil := rec(abortRequest, 2, "") + padded(abortRequest, 65535, "", 255)
	underAttack(t, 0, func(s *fcgiSite) {
		s.want(abort+evil, "")
		s.want(abort+evil+begins(1, true)+evil+aGET("/")[16:]+evil+abort+aGET("/"), "1: 200 / <nil>; 1: 200 / <nil>")
		s.want(sized(5)+evil+rec(stdinStream, 1, "he")+evil+inRecords(stdinStream, 1, 9, "llo"), "1: 200 / hello<nil>")
	})
}

// The end of PARAMS comes before the end of STDIN, and each comes once.
func TestFCGIStreamsOutOfOrderEndConnection(t *testing.T) {
	list := nameValues(fcgiRequest{}.list()...)
	underAttack(t, 0, func(s *fcgiSite) {
		s.want(begins(1, true)+rec(stdinStream, 1, "x"), "")
		s.want(begins(1, true)+rec(paramsStream, 1, list)+rec(stdinStream, 1, ""), "")
		s.want(begins(1, true)+inRecords(paramsStream, 1, 99, list)+rec(paramsStream, 1, "x"), "")
		s.want(aGET("/")+rec(stdinStream, 1, "more")+rec(paramsStream, 1, "more")+aGET("/"),
			"1: 200 / <nil>; 1: 200 / <nil>")
		s.want(sized(2)+rec(stdinStream, 1, "he")+rec(paramsStream, 1, "more")+rec(stdinStream, 1, ""),
			"1: 200 / he<nil>")
	})
}

// A web server that has closed its sending side still gets its responses.
func TestFCGIHalfClosedConnectionGetsResponses(t *testing.T) {
	underAttack(t, 0, func(s *fcgiSite) {
		s.want("", "")
		s.want(aGET("/1")+aPOST("2"), "1: 200 /1 <nil>; 1: 200 / 2<nil>")
		s.want(begins(1, true), "1: 400 400 Bad Request: incomplete request head")
		s.want(fcgiRequest{}.head(), "1: 400 400 Bad Request: incomplete request head")
		s.want(fcgiRequest{}.head()[:30], "1: 400 400 Bad Request: incomplete request head")
		s.want(aGET("/")+fcgiRequest{id: 2}.head()[:30],
			"1: 200 / <nil>; 2: 400 400 Bad Request: incomplete request head")
		s.want(begins(3, true)+rec(abortRequest, 3, "")+"\x01", "3 ended as 0")
		s.want(sized(5)+rec(stdinStream, 1, "he"), "1: 200 / hefcgi: connection to web server closed")
	})
}

// Thousands of web servers that stall anywhere in a request hold memory in proportion to what they
// have sent. Their connections close with the server.
func TestFCGIStalledPeersHoldLittleMemory(t *testing.T) {
	withoutReserve(t)
	whole := aPOST("hello")
	n := 300
	underAttack(t, 0, func(s *fcgiSite) {
		before := inUse()
		var all []*fcgiPeer
		for i := range n {
			p := s.peer()
			io.WriteString(p, whole[:i%(len(whole)-8)])
			all = append(all, p)
		}
		s.roundTrip(aGET("/"))
		each := (int64(inUse()) - int64(before)) / int64(n)
		if bound := int64(96 << 10); each > bound {
			s.Errorf("%d bytes for each, want at most %d", each, bound)
		}
		for _, p := range slices.Backward(all) {
			p.Close()
		}
	})
}
