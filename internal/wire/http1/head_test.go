package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

var testLimits = Limits{Bytes: 1024, Fields: 32}

// grow calls parse with more and more of the input, as a connection does, each time in new memory
// of exactly that size.
func grow(pieces [][]byte, parse func(b []byte) (bool, error), describe func(b []byte) string) string {
	var b []byte
	for _, p := range pieces {
		b = append(make([]byte, 0, len(b)+len(p)), append(b, p...)...)
		complete, err := parse(b)
		if err != nil {
			e, _ := errors.AsType[*Error](err)
			return fmt.Sprintf("error: %v (%d)", err, e.Status())
		}
		if complete {
			return describe(b)
		}
	}
	return "incomplete"
}

func describeHead(b []byte, h *Head) string {
	var s strings.Builder
	fmt.Fprintf(&s, " 1.%d persistent=%v size=%d", h.Minor, h.IsPersistent(), h.Size)
	for _, f := range h.Fields {
		name := string(f.Name.In(b))
		if f.Known != NameUnknown && !strings.EqualFold(f.Known.String(), name) {
			fmt.Fprintf(&s, " KNOWN-AS %s", f.Known)
		}
		fmt.Fprintf(&s, " [%s: %q]", name, f.Value.In(b))
	}
	return s.String()
}

func parseRequest(pieces [][]byte) string {
	var r Request
	return grow(pieces, func(b []byte) (bool, error) { return r.Parse(b, testLimits) }, func(b []byte) string {
		return fmt.Sprintf("%s %s %+v", r.Method.In(b), r.Target.In(b), r.Body()) + describeHead(b, &r.Head)
	})
}

func parseResponse(pieces [][]byte) string {
	var r Response
	return grow(pieces, func(b []byte) (bool, error) { return r.Parse(b, testLimits) }, func(b []byte) string {
		return fmt.Sprintf("%d %q %+v %+v", r.Status, r.Reason.In(b), r.Body(false), r.Body(true)) +
			describeHead(b, &r.Head)
	})
}

func parseTrailer(pieces [][]byte) string {
	var r Trailer
	return grow(pieces, func(b []byte) (bool, error) { return r.Parse(b, testLimits) }, func(b []byte) string {
		return fmt.Sprintf("size=%d fields=%d", r.Size, len(r.Fields))
	})
}

// A vector is one input and part of the expected description. The names give the section of RFC
// 9112 or RFC 9110, or the class of defect.
type vector struct{ why, in, want string }

var requestVectors = []vector{
	{"9112 3: simplest", "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		`GET / {Mode:0 Length:0} 1.1 persistent=true size=27 [Host: "a"]`},
	{"9112 2.2: one empty line before", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "size=29"},
	{"two empty lines before", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "malformed method at byte 2"},
	{"9112 3.2.2: absolute form", "GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://a/b"},
	{"9112 3.2.4: asterisk form", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS *"},
	{"bytes over 0x7f in a target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /\xc3\xa9 "},
	{"9110 5.5: space around a value", "GET / HTTP/1.1\r\nHost: \t a \t\r\nX:\r\n\r\n", `[Host: "a"] [X: ""]`},
	{"9110 5.5: inner space and high bytes", "GET / HTTP/1.1\r\nHost: a\r\nX: b\t c\xff\r\n\r\n", `[X: "b\t c\xff"]`},
	{"9112 9.3: close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: x , Close\r\n\r\n", "persistent=false"},
	{"9112 9.3: 1.0 closes", "GET / HTTP/1.0\r\n\r\n", "1.0 persistent=false"},
	{"9112 9.3: 1.0 keeps on request", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "persistent=true"},
	{"9112 2.3: later minor version", "GET / HTTP/1.7\r\nHost: a\r\n\r\n", "1.7 persistent=true"},
	{"9112 6.2: length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0042\r\n\r\n", "{Mode:1 Length:42}"},
	{"length zero", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "{Mode:0 Length:0}"},
	{"greatest length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n",
		"Length:9223372036854775807"},
	{"9112 7.1: chunked in any case", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n",
		"{Mode:2 Length:0}"},
	{"nothing yet", "", "incomplete"},
	{"stops inside a line", "GET / HTTP/1.1\r\nHos", "incomplete"},

	{"smuggling: both lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n", "both Transfer-Encoding and Content-Length at byte 75"},
	{"smuggling: two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
		"second Content-Length"},
	{"smuggling: signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n",
		"malformed Content-Length"},
	{"smuggling: length past 63 bits", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n",
		"Content-Length out of range"},
	{"smuggling: two codings", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n", "unknown transfer coding"},
	{"smuggling: coding on 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
		"Transfer-Encoding on HTTP/1.0"},
	{"smuggling: other coding on 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: gzip\r\n\r\n",
		"unknown transfer coding at byte 36 (501)"},
	{"smuggling: space before colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
		"space in field name or before its colon at byte 20"},
	{"smuggling: folded first line", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "folded field line at byte 16"},
	{"all lines end in LF", "GET / HTTP/1.1\nHost: a\n\n", ""},
	{"smuggling: bare LF", "GET / HTTP/1.1\nHost: a\r\n\r\n", "CRLF after a line that ends in LF at byte 23"},
	{"smuggling: bare LF, then CRLF", "GET / HTTP/1.1\nHost: a\n\r\n", "CRLF after a line that ends in LF at byte 24"},
	{"smuggling: bare LF ends the head", "GET / HTTP/1.1\r\nHost: a\r\n\n", "LF without CR at byte 25"},
	{"smuggling: bare CR in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
		"control byte in field value at byte 29"},
	{"smuggling: NUL in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\x00: b\r\n\r\n",
		"byte not allowed in field name at byte 26"},
	{"smuggling: empty name", "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "empty field name"},
	{"no colon", "GET / HTTP/1.1\r\nHost: a\r\nfoo\r\n\r\n", "field line without a colon at byte 28"},
	{"smuggling: line folded by a tab", "GET / HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n", "folded field line at byte 25"},
	{"routing: no host", "GET / HTTP/1.1\r\n\r\n", "missing Host"},
	{"9112 3.2: empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", `[Host: ""]`},
	{"9110 9.3.6: the target of CONNECT is the host", "CONNECT a:80 HTTP/1.1\r\n\r\n", "CONNECT a:80"},
	{"routing: two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "second Host"},
	{"routing: hosts in a list", "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", "malformed Host"},
	{"empty method", " / HTTP/1.1\r\n\r\n", "malformed method at byte 0"},
	{"method is no token", "G(T / HTTP/1.1\r\n\r\n", "malformed method at byte 1"},
	{"no target", "CONNECT  HTTP/1.1\r\nHost: a\r\n\r\n", "malformed request target at byte 8"},
	{"control byte in target", "GET /\x01 HTTP/1.1\r\n\r\n", "malformed request target at byte 5"},
	{"space in target", "GET /a b HTTP/1.1\r\n\r\n", "malformed protocol version"},
	{"small version", "GET / http/1.1\r\n\r\n", "malformed protocol version at byte 6"},
	{"version behind an empty line", "\r\nGET / http/1.1\r\n\r\n", "malformed protocol version at byte 8"},
	{"another protocol version", "PRI * HTTP/2.0\r\n\r\n", "protocol is not HTTP/1 at byte 6 (505)"},
	{"limit: a head just within", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 992) + "\r\n\r\n",
		"size=1024"},
	{"limit: a head just over", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 993) + "\r\n\r\n",
		"section too large at byte 1024"},
	{"limit: a piece that fills it", strings.Repeat("a", 1024), "section too large at byte 1024 (431)"},
	{"limit: as many fields as allowed", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("a:\r\n", 31) + "\r\n",
		"size=151"},
	{"limit: fields", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("a:\r\n", 40) + "\r\n",
		"too many field lines at byte 149 (431)"},
	{"limit: fault before limit", "GET / HTTP/1.1\r\nfoo\r\n" + strings.Repeat("a:b\r\n", 512),
		"field line without a colon at byte 19 (400)"},
}

var responseVectors = []vector{
	{"9112 4: simplest", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
		`200 "OK" {Mode:1 Length:3} {Mode:0 Length:0} 1.1 persistent=true size=38`},
	{"9112 4: empty reason", "HTTP/1.1 200 \r\n\r\n", `200 ""`},
	{"no space before a missing reason", "HTTP/1.1 200\r\n\r\n", `200 ""`},
	{"length one", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", `"OK" {Mode:1 Length:1} {Mode:0 Length:0}`},
	{"length zero", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", `"OK" {Mode:0 Length:0} {Mode:0 Length:0}`},
	{"greatest interim status", "HTTP/1.1 199 OK\r\nContent-Length: 3\r\n\r\n", `"OK" {Mode:0 Length:0}`},
	{"9112 6.3: until close", "HTTP/1.1 200 OK\r\n\r\n", "{Mode:3 Length:0}"},
	{"9112 6.3: 204 has no body", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n",
		`"No Content" {Mode:0 Length:0}`},
	{"9112 6.3: 304 has no body", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", `{Mode:0 Length:0}`},
	{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "{Mode:2 Length:0}"},
	{"other coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "unknown transfer coding"},
	{"bare LF in the first line", "HTTP/1.1 200 OK\nContent-Length: 3\r\n\r\n", "LF without CR at byte 15"},
	{"leading line", "\r\nHTTP/1.1 200 OK\r\n\r\n", "status line too short"},
	{"long code", "HTTP/1.1 2000 OK\r\n\r\n", "malformed status code at byte 12"},
	{"code under 100", "HTTP/1.1 099 OK\r\n\r\n", "malformed status code at byte 8"},
	{"no space before a code", "HTTP/1.1200 OK!\r\n\r\n", "malformed status code at byte 8"},
	{"not HTTP", "SSH-2.0-OpenSSH_9.2p1\r\n", "malformed protocol version"},
	{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", "protocol is not HTTP/1"},
	{"control byte in reason", "HTTP/1.1 200 O\x01K\r\n\r\n", "control byte in reason phrase at byte 14"},
}

var trailerVectors = []vector{
	{"9112 7.1.2: none", "\r\n", "size=2 fields=0"},
	{"one field", "X-Sum: 1\r\n\r\nGET", "size=12 fields=1"},
	{"framing field", "Content-Length: 1\r\n\r\n", "field not allowed in a trailer section"},
	{"routing field", "A: b\r\nHost: a\r\n\r\n", "field not allowed in a trailer section at byte 6"},
	{"bare LF", "X: 1\n\r\n", "LF without CR"},
	{"limit", "X: " + strings.Repeat("a", 1100), "section too large"},
	{"not yet", "X: 1\r\n", "incomplete"},
}

// Reset keeps nothing of the last message.
func TestResetForgets(t *testing.T) {
	var r Request
	first := []byte("\r\nPOST / HTTP/1.0\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: " +
		"keep-alive\r\n\r\n")
	testkit.Value(r.Parse(first, testLimits))(t)
	r.Reset()
	second := []byte("\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n")
	testkit.Equal(t, testkit.Value(r.Parse(second, testLimits))(t), true, "complete")
	if yes, unmet := r.ExpectsContinue(); yes || unmet || r.Body() != (Framing{}) || r.hasLength || len(r.Fields) != 1 {
		t.Errorf("remembered: %+v", r)
	}
}

func TestFieldsSetFacts(t *testing.T) {
	for fields, want := range map[string]string{
		"Host: \ta:1 \r\n":                                   `host "a:1" true, continue false, unmet false`,
		"Host: a\r\nExpect: 100-Continue\r\n":                `host "a" true, continue true, unmet false`,
		"Host: a\r\nExpect: tea\r\n":                         `host "a" true, continue false, unmet true`,
		"Host: a\r\nExpect: tea\r\nExpect: 100-continue\r\n": `host "a" true, continue false, unmet true`,
		"Host: a\r\nExpect: 100-continue\r\nExpect: tea\r\n": `host "a" true, continue true, unmet false`,
		"Host: a\r\nExpect: tea, 100-continue\r\n":           `host "a" true, continue true, unmet false`,
		"Host: a\r\nExpect:\r\nExpect: 100-continue\r\n":     `host "a" true, continue false, unmet false`,
		"Host: a\r\nExpect: ,\r\n":                           `host "a" true, continue false, unmet true`,
	} {
		var r Request
		in := []byte("GET / HTTP/1.1\r\n" + fields + "\r\n")
		testkit.Value(r.Parse(in, testLimits))(t)
		host, ok := r.Host()
		continues, unmet := r.ExpectsContinue()
		got := fmt.Sprintf("host %q %v, continue %v, unmet %v", host.In(in), ok, continues, unmet)
		testkit.Equal(t, got, want, fields)
	}
	var r Request
	testkit.Value(r.Parse([]byte("GET / HTTP/1.0\r\n\r\n"), testLimits))(t)
	testkit.Equal(t, fmt.Sprint(r.Host()), "{0 0} false", "the host of a request without one")
}

func TestTrailerAllowedAgreesWithParse(t *testing.T) {
	for name, want := range map[string]bool{
		"Connection": false, "content-length": false, "Expect": false, "HOST": false, "Trailer": false,
		"Transfer-Encoding": false, "Upgrade": false, "X-Sum": true, "Etag": true, "Server-Timing": true, "": false,
	} {
		testkit.Equal(t, TrailerAllowed(name), want, name)
		if name == "" {
			continue
		}
		var tr Trailer
		ok, err := tr.Parse([]byte(name+": 1\r\n\r\n"), testLimits)
		testkit.Equal(t, ok && err == nil, want, name, "in a trailer section")
		tr = Trailer{IsLenient: true}
		testkit.Equal(t, testkit.Value(tr.Parse([]byte(name+": 1\r\n\r\n"), testLimits))(t), true)
		testkit.Equal(t, len(tr.Fields) == 1, want, name, "in a lenient trailer section")
	}
}

func TestTakeTrailerReturnsAnnouncedNames(t *testing.T) {
	for _, c := range []struct {
		lists     []string
		isLenient bool
		want      string
	}{
		{nil, false, "map[] <nil>"},
		{[]string{" ,"}, false, "map[] <nil>"},
		{[]string{"x-a, X-B", "x-a,,etag"}, false, "map[Etag:[] X-A:[] X-B:[]] <nil>"},
		{[]string{"X-A, HOST, X-B"}, true, "map[X-A:[] X-B:[]] <nil>"},
		{[]string{"X-A, host, X-B"}, false, "map[] http1: trailer field not allowed at byte 0"},
		{[]string{"A, B, C, D"}, true, "map[A:[] B:[] C:[]] http1: too many names in the Trailer field at byte 0"},
	} {
		header := map[string][]string{"Trailer": c.lists, "X": nil}
		trailer, err := TakeTrailer(header, 3, c.isLenient, textproto.CanonicalMIMEHeaderKey)
		testkit.Equal(t, fmt.Sprint(trailer, " ", err), c.want, c.lists)
		testkit.Equal(t, len(header), 1, c.lists)
	}
}

// A line that is too long is rejected as soon as that is known, wherever its pieces begin.
func TestLinesAreLimited(t *testing.T) {
	limits := Limits{Bytes: 1024, Fields: 32, Line: 40}
	const line, field = "GET / HTTP/1.1\r\nHost: a\r\n", "X-A: "
	long := strings.Repeat("x", 40-len(field+"\r\n"))
	target := strings.Repeat("x", 40-len("GET / HTTP/1.1\r\n"))
	for in, want := range map[string]string{
		line + field + long + "\r\n" + field + "x\r\n\r\n":    "true: complete",
		line + field + long + "x\r\n\r\n":                     "true: error: http1: line too long at byte 65 (431)",
		line + field + " " + long + "\r\n\r\n":                "true: error: http1: line too long at byte 65 (431)",
		line + field + strings.Repeat("x", 50):                "true: error: http1: line too long at byte 65 (431)",
		"GET /" + target + " HTTP/1.1\r\nHost: a\r\n\r\n":     "true: complete",
		"GET /" + target + "x HTTP/1.1\r\nHost: a\r\n\r\n":    "false: error: http1: line too long at byte 40 (431)",
		"GET /" + target + strings.Repeat("x", 40):            "false: error: http1: line too long at byte 40 (431)",
		"\r\nGET /" + target + " HTTP/1.1\r\nHost: a\r\n\r\n": "true: complete",
	} {
		got := testkit.EverySplit(t, []byte(in), func(pieces [][]byte) string {
			var r Request
			end := grow(pieces, func(b []byte) (bool, error) { return r.Parse(b, limits) },
				func([]byte) string { return "complete" })
			return fmt.Sprintf("%v: %s", r.Begun(), end)
		})
		testkit.Equal(t, got, want, in)
	}
}

func TestHostsAreValidated(t *testing.T) {
	for host, want := range map[string]bool{
		"a": true, "a:80": true, "a:": true, "a%41": true, "%c3%a9": true, "[::1]": true, "[::1]:80": true, "..": true,
		"a%zz": true, "": false, ":80": false, "a b": false, "a,b": false, "a@b": false, "a\x80": false,
		"[v1.a:b]": true, "[vF0.~!]:1": true, "[v.a]": false, "[v1.]": false, "[v1]": false, "[v1.a/b]": false,
		"[fe80::1%25a]": false, "[]": false, "[::1]b": false,
		"a/b": false, "a#b": false, "a:b": false, "[::1": false, "[a.example]": false, "[abc]": false, "[:::]": false,
	} {
		testkit.Equal(t, ValidHost([]byte(host)), want, host)
	}
}

func parseCGI(pieces [][]byte) string {
	var r CGI
	return grow(pieces, func(b []byte) (bool, error) { return r.Parse(b, testLimits) }, func(b []byte) string {
		length, ok := r.Length()
		return fmt.Sprintf("%d %q length %d %v,", r.Status, r.Reason.In(b), length, ok) + describeHead(b, &r.Head)
	})
}

// Sections are those of RFC 3875.
var cgiVectors = []vector{
	{"6.2.1: a document", "Content-Type: text/plain\n\nbody",
		`200 "" length 0 false, 1.0 persistent=false size=26 [Content-Type: "text/plain"]`},
	{"6: lines end in LF", "Status: 404 Not Found\nA: b\n\nbody",
		`404 "Not Found" length 0 false, 1.0 persistent=false size=28 [Status: "404 Not Found"] [A: "b"]`},
	{"6: lines end in either", "Status: 404 Not Found\r\nA: b\n\r\nbody",
		`404 "Not Found" length 0 false, 1.0 persistent=false size=30 [Status: "404 Not Found"] [A: "b"]`},
	{"no fields", "\nA: b\n\n", `200 "" length 0 false, 1.0 persistent=false size=1`},
	{"empty value, space around one", "A:\nB: \t c \t\n\n", `[A: ""] [B: "c"]`},
	{"incomplete", "Status: 200 OK\nA: b\n", "incomplete"},
	{"incomplete at a CR", "A: b\r\n\r", "incomplete"},

	{"6.3.3: status without a reason", "Status: 204\n\n", `204 "" length`},
	{"6.3.3: name in any case, no space", "sTATUS:500 Oh no\n\n", `500 "Oh no" length`},
	{"status behind other fields", "A: b\nC: d\nStatus: 201 Created\n\n", `201 "Created" length`},
	{"6.2.3: a redirection", "Location: /x\n\n", `302 "" length 0 false, 1.0 persistent=false size=14 ` +
		`[Location: "/x"]`},
	{"6.2.4: a redirection with a status", "Location: /x\nStatus: 201 Created\n\n", `201 "Created"`},
	{"no redirection", "Content-Location: /x\nLocatio: /y\nLocations: /z\n\n", `200 ""`},

	{"length", "Content-Length: 12\n\n", `200 "" length 12 true`},
	{"greatest length", "CONTENT-LENGTH: 9223372036854775807\n\n", `length 9223372036854775807 true`},
	{"length out of range", "A: b\nContent-Length: 9223372036854775808\n\n", "Content-Length out of range at byte 21"},
	{"second length", "Content-Length: 1\nContent-Length: 1\n\n", "second Content-Length at byte 34"},
	{"empty length", "Content-Length:\n\n", "malformed Content-Length at byte 15"},
	{"6.3.4: what is about the connection means nothing",
		"Connection: keep-alive, x\nTransfer-Encoding: gzip\nTransfer-Encoding: chunked\nHost: a b\nHost: c\n" +
			"Expect: tea\n" +
			"Trailer: Host\nUpgrade: h2c\nContent-Length: 5\n\n",
		`200 "" length 5 true, 1.0 persistent=false size=153 [Connection: "keep-alive, x"] [Transfer-Encoding: ` +
			`"gzip"] [Transfer-Encoding: "chunked"] [Host: "a b"] [Host: "c"] ` +
			`[Expect: "tea"] [Trailer: "Host"] [Upgrade: "h2c"] [Content-Length: "5"]`},

	{"second status", "Status: 200 OK\nA: b\nstatus: 200 OK\n\n", "second Status at byte 20"},
	{"status: none", "A: b\nStatus:\n\n", "malformed Status at byte 12"},
	{"status: under 100", "Status: 099 x\n\n", "malformed Status at byte 8"},
	{"status: no space before the reason", "Status: 200OK\n\n", "malformed Status at byte 8"},
	{"the malformed one is reported first", "Status: x\nStatus: 200\n\n", "malformed Status at byte 8"},

	{"a status line", "HTTP/1.1 200 OK\r\n\r\n", "byte not allowed in field name at byte 4"},
	{"space before the colon", "A : b\n\n", "space in field name or before its colon at byte 1"},
	{"folded", "A: b\n c\n\n", "folded field line at byte 5"},
	{"space on the empty line", "A: b\n \n\n", "folded field line at byte 5"},
	{"CR in a value", "A: b\rc\n\n", "control byte in field value at byte 4"},
	{"limit: as many bytes as may be", "A: " + strings.Repeat("a", 1024-5) + "\n\n", `size=1024`},
	{"limit: one byte more", "A: " + strings.Repeat("a", 1024-4) + "\n\n", "section too large at byte 1024"},
	{"limit: one field more", strings.Repeat("A: b\n", 33) + "\n", "too many field lines at byte 160"},
}

// compareCGI compares the fields with those of net/textproto, which also accepts a bare LF.
func compareCGI(in []byte) (complete bool, diff string, err, theirErr error) {
	var r CGI
	complete, err = r.Parse(in, testLimits)
	theirs, theirErr := textproto.NewReader(bufio.NewReader(bytes.NewReader(in))).ReadMIMEHeader()
	ours := make(textproto.MIMEHeader)
	for _, f := range r.Fields {
		ours.Add(string(f.Name.In(in)), string(f.Value.In(in)))
	}
	return complete, different("fields", ours, theirs), err, theirErr
}
