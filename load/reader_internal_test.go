package load

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// describe passes pieces of input to a reader and returns everything that it reports.
func describe(p protocol, isHead bool) func(pieces [][]byte) string {
	return func(pieces [][]byte) string {
		t := tally{counting: true}
		r := p.newReaders(1, readerConfig{tally: &t})[0]
		a := response{isHead: isHead}
		consumed := 0
		for i, piece := range pieces {
			n, err := r.consume(piece, &a)
			consumed += n
			if err != nil {
				r.reset()
				return fmt.Sprintf("%v %+v", err, t.fastCGI)
			}
			if a.stage == complete {
				rest := len(strings.Join(stringsOf(pieces), "")) - consumed
				return fmt.Sprintf("status %d, last %t, %d bytes left %+v", a.status, a.last, rest, t.fastCGI)
			}
			if n != len(piece) {
				return fmt.Sprintf("BUG: %d of %d bytes consumed of piece %d", n, len(piece), i)
			}
		}
		untilClose := r.untilClose()
		r.reset()
		return fmt.Sprintf("got %d, status %d, until close %t %+v", a.stage, a.status, untilClose, t.fastCGI)
	}
}

func stringsOf(pieces [][]byte) (all []string) {
	for _, p := range pieces {
		all = append(all, string(p))
	}
	return all
}

// A response may arrive in any pieces, and its head in any number of records.
func TestFastCGIReaderParsesEverySplit(t *testing.T) {
	const head = "Content-Type: text/plain\r\n\r\n"
	none := Record(6, 1, "", 0)
	text := "status 200, last false, 0 bytes left &{Resent:0 Exits:0 StderrBytes:0 Stderr:}"
	for _, test := range []struct{ name, in, want string }{
		{"one record", Stdout(head+"hello") + none + End(0, 0), text},
		{"no end of STDOUT", Stdout(head+"hello") + End(0, 0), text},
		{"no body", Stdout(head) + none + End(0, 0), text},
		{"empty lines", Stdout("\n") + End(0, 0), text},
		{"head over records", Stdout("Content-Type: te") + Stdout("xt/plain\r\nA: b\r") + Stdout("\n\r\nhel") +
			Stdout("lo") + none + End(0, 0), text},
		{"padding", Record(6, 1, head, 3) + Record(6, 1, "hello", 255) + Record(6, 1, "", 8) + Record(3, 1,
			strings.Repeat("\x00", 8), 9), text},
		{"length", Stdout("Content-Length: 5\n\nhel") + Stdout("lo") + none + End(0, 0), text},
		{"status", Stdout("Status: 404 Not Found\r\n\r\n") + none + End(0, 0), strings.Replace(text, "200", "404", 1)},
		{"redirect", Stdout("Location: /a\r\n\r\n") + none + End(0, 0), strings.Replace(text, "200", "302", 1)},
		{"no content, with a length", Stdout("Status: 304\r\nContent-Length: 5\r\n\r\n") + End(0, 0),
			strings.Replace(text, "200", "304", 1)},
		{"STDERR", Stderr("a") + Stdout(head) + Record(7, 1, "bc", 5) + Record(7, 1, "", 0) + End(0, 0),
			"status 200, last false, 0 bytes left &{Resent:0 Exits:0 StderrBytes:3 Stderr:abc}"},
		{"long STDERR", Stderr(strings.Repeat("e", 700)) + Stdout(head) + End(0, 0),
			"status 200, last false, 0 bytes left &{Resent:0 Exits:0 StderrBytes:700 Stderr:" + strings.Repeat("e",
				512) + "}"},
		{"exit code", Stdout(head) + End(7, 0),
			"status 200, last false, 0 bytes left &{Resent:0 Exits:1 StderrBytes:0 Stderr:}"},
		{"more than the response", Stdout(head) + End(0, 0) + "\x01", strings.Replace(text, "0 bytes", "1 bytes", 1)},

		{"unfinished", Stdout(head) + none, "got 2, status 200, until close false &{Resent:0 Exits:0 StderrBytes:0 Stderr:}"},
		{"unfinished padding", Stdout(head) + Record(3, 1, strings.Repeat("\x00", 8), 2)[:17],
			"got 2, status 200, until close false &{Resent:0 Exits:0 StderrBytes:0 Stderr:}"},
		{"only STDERR", Stderr("oh"), "got 1, status 0, until close false &{Resent:0 Exits:0 StderrBytes:2 Stderr:oh}"},

		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", "fcgi: unsupported FastCGI version"},
		{"other request", Stdout(head) + Record(6, 2, "a", 0), "record for request ID 2, want 1"},
		{"other request's end", Record(3, 513, strings.Repeat("\x00", 8), 0), "record for request ID 513,"},
		{"management", Record(11, 0, "\x63\x00\x00\x00\x00\x00\x00\x00", 0), "record for request ID 0,"},
		{"PARAMS", Record(4, 1, "a", 0), "record of unexpected type 4"},
		{"unknown type", Record(12, 1, "", 0), "record of unexpected type 12"},
		{"type 0", Record(0, 1, "", 0), "fcgi: invalid record type 0"},
		{"STDOUT after its end", Stdout(head) + none + Stdout("a"), "STDOUT continues after its end"},
		{"STDOUT ends twice", Stdout(head) + none + none, "STDOUT continues after its end"},
		{"no head", Stderr("oh") + none + End(1, 0),
			"the application ended the request before a complete response head &{Resent:0 Exits:0 StderrBytes:2 Stderr:oh}"},
		{"half a head", Stdout("A: b\r\n") + End(0, 0), "before a complete response head"},
		{"bad head", Stdout("A b\r\n\r\n") + End(0, 0), "http1: space in field name"},
		{"bad status", Stdout("Status: 20\r\n\r\n") + End(0, 0), "http1: malformed Status"},
		{"large head", Stdout("A: "+strings.Repeat("a", 40_000)) + Stdout(strings.Repeat("a", 40_000)),
			"section too large"},
		{"many fields", Stdout(strings.Repeat("A: b\n", maxFields+1)), "too many field lines"},
		{"short body", Stdout("Content-Length: 5\r\n\r\nhell") + none + End(0, 0),
			"body of 4 bytes, but Content-Length is 5"},
		{"long body", Stdout("Content-Length: 5\r\n\r\nhello") + Stdout("!") + none + End(0, 0),
			"body of 6 bytes, but Content-Length is 5"},
		{"cannot multiplex", End(0, 1), "the application refused the request: cannot multiplex (protocol status 1)"},
		{"overloaded", End(0, 2), "the application refused the request: overloaded (protocol status 2)"},
		{"overloaded after all", Stdout(head) + End(0, 2), "the application refused the request: overloaded"},
		{"unknown role", End(0, 3), "the application refused the request: unknown role (protocol status 3)"},
		{"unknown status", End(0, 9), "the application refused the request: unknown status (protocol status 9)"},
		{"short END_REQUEST", Record(3, 1, "\x00\x00\x00\x00", 0), "END_REQUEST content is not 8 bytes long"},
		{"long END_REQUEST", Record(3, 1, strings.Repeat("\x00", 5000), 0), "fcgi: message too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in, how := []byte(test.in), describe(fcgiProtocol{}, false)
			got := how([][]byte{in})
			if len(in) < 10_000 { // a head that comes byte by byte is parsed as often
				got = testkit.EverySplit(t, in, how)
			}
			if !strings.Contains(got, test.want) {
				t.Errorf(" got %s\nwant %s", got, test.want)
			}
		})
	}
	got := testkit.EverySplit(t, []byte(Stdout("Content-Length: 5\r\n\r\n")+End(0, 0)), describe(fcgiProtocol{}, true))
	if got != text {
		t.Errorf("HEAD: %s", got)
	}
}

// The same holds for HTTP's reader.
func TestHTTPReaderParsesEverySplit(t *testing.T) {
	for in, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello":    "status 200, last false, 0 bytes left",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!":   "status 200, last false, 1 bytes left",
		"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n": "status 204, last true, 0 bytes left",

		"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n":    "status 404, last false, 0 bytes left",
		"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n":                                                       "got 0,",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nSum: 1\r\n\r\nHTTP/1.1 ": "status 200, last false, 9 bytes left",

		"HTTP/1.0 200 OK\r\n\r\nall there is":                            "got 2, status 200, until close true",
		"HTTP/1.1 200 OK\r\nContent-Le":                                  "got 1,",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                       errSwitched.Error(),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd": "chunk data not followed by CRLF",
	} {
		if got := testkit.EverySplit(t, []byte(in),
			describe(httpProtocol{1}, false)); !strings.HasPrefix(strings.TrimPrefix(got, "http1: "), want) {
			t.Errorf("%q:\n got %s\nwant %s", in, got, want)
		}
	}
}
