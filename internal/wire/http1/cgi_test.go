package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"net/textproto"
	"strings"
)

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
