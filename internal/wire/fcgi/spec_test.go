package fcgi

import (
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// The examples of the specification's appendix B, "Typical protocol message flow". It writes
// records as {type, id, content}. What it omits from long contents (" ... ") is omitted here, too.
const (
	specParams = "\013\002SERVER_PORT80\013\016SERVER_ADDR199.170.183.42"
	specPage   = "Content-type: text/html\r\n\r\n<html>\n<head>"
	specPairs  = `["SERVER_PORT=80" "SERVER_ADDR=199.170.183.42"]`
)

var specExamples = []struct {
	why                string
	received, sent     []string
	requests, response string // what the application and the web server read
}{
	{
		"1: a simple request with no data on stdin, and a successful response",
		[]string{
			plain(BeginRequest, 1, "\x00\x01\x00\x00\x00\x00\x00\x00"),
			plain(Params, 1, specParams),
			plain(Params, 1, ""),
			plain(Stdin, 1, ""),
		},
		[]string{
			plain(Stdout, 1, specPage),
			plain(Stdout, 1, ""),
			plain(EndRequest, 1, "\x00\x00\x00\x00\x00\x00\x00\x00"),
		},
		`1 keep=false in 1 ` + specPairs + ` body "" empty`,
		`[6/1 "Content-type: text/html\r\n\r\n<html>\n<head>"][6/1 ""][3/1 "\x00\x00\x00\x00\x00\x00\x00\x00"] ` +
			`consumed=72`,
	},
	{
		"2: data on stdin, and parameters in more records",
		[]string{
			plain(BeginRequest, 1, "\x00\x01\x00\x00\x00\x00\x00\x00"),
			plain(Params, 1, "\013\002SERVER_PORT80\013\016SER"),
			plain(Params, 1, "VER_ADDR199.170.183.42"),
			plain(Params, 1, ""),
			plain(Stdin, 1, "quantity=100&item=3047936"),
			plain(Stdin, 1, ""),
		},
		nil,
		`1 keep=false in 2 ` + specPairs + ` body "quantity=100&item=3047936" ended`,
		` consumed=0`,
	},
	{
		"3: an error is detected, logged, and reported by the exit status",
		nil,
		[]string{
			plain(Stdout, 1, "Content-type: text/html\r\n\r\n<ht"),
			plain(Stderr, 1, "config error: missing SI_UID\n"),
			plain(Stdout, 1, "ml>\n<head>"),
			plain(Stdout, 1, ""),
			plain(Stderr, 1, ""),
			plain(EndRequest, 1, "\x00\x00\x03\xaa\x00\x00\x00\x00"),
		},
		"",
		`[6/1 "Content-type: text/html\r\n\r\n<ht"][7/1 "config error: missing SI_UID\n"][6/1 ` +
			`"ml>\n<head>"][6/1 ""][7/1 ""]` +
			`[3/1 "\x00\x00\x03\xaa\x00\x00\x00\x00"] consumed=125`,
	},
	{
		"4: two requests, multiplexed onto a single connection",
		[]string{
			plain(BeginRequest, 1, "\x00\x01\x01\x00\x00\x00\x00\x00"),
			plain(Params, 1, specParams),
			plain(Params, 1, ""),
			plain(BeginRequest, 2, "\x00\x01\x01\x00\x00\x00\x00\x00"),
			plain(Params, 2, specParams),
			plain(Stdin, 1, ""),
			plain(Params, 2, ""),
			plain(Stdin, 2, ""),
		},
		[]string{
			plain(Stdout, 1, "Content-type: text/html\r\n\r\n"),
			plain(Stdout, 2, specPage),
			plain(Stdout, 2, ""),
			plain(EndRequest, 2, "\x00\x00\x00\x00\x00\x00\x00\x00"),
			plain(Stdout, 1, "<html>\n<head>"),
			plain(Stdout, 1, ""),
			plain(EndRequest, 1, "\x00\x00\x00\x00\x00\x00\x00\x00"),
		},
		`second 2; 1 keep=true in 1 ` + specPairs + ` body "" empty`, // and the second is refused
		`[6/1 "Content-type: text/html\r\n\r\n"][6/2 "Content-type: text/html\r\n\r\n<html>\n<head>"][6/2 ` +
			`""][3/2 "\x00\x00\x00\x00\x00\x00\x00\x00"]` +
			`[6/1 "<html>\n<head>"][6/1 ""][3/1 "\x00\x00\x00\x00\x00\x00\x00\x00"] consumed=152`,
	},
}

func TestSpecificationExamplesAreRead(t *testing.T) {
	for _, e := range specExamples {
		t.Run(e.why, func(t *testing.T) {
			if got := testkit.EverySplit(t, []byte(strings.Join(e.received, "")),
				readRequests(t, roomy, true)); got != e.requests {
				t.Errorf("received\n got %s\nwant %s", got, e.requests)
			}
			if got := testkit.EverySplit(t, []byte(strings.Join(e.sent, "")),
				readRecords(t, false)); got != e.response {
				t.Errorf("sent\n got %s\nwant %s", got, e.response)
			}
		})
	}
}

// The package writes the bytes of the examples.
func TestSpecificationExamplesAreWritten(t *testing.T) {
	first := AppendBegin(nil, 1, Begin{Role: Responder})
	first = AppendStream(first, Params, 1, AppendPair(AppendPair(nil, "SERVER_PORT", "80"), "SERVER_ADDR",
		"199.170.183.42"))
	first = AppendStreamEnd(first, Params, 1)
	first = AppendStreamEnd(first, Stdin, 1)
	third := AppendStream(nil, Stdout, 1, []byte("Content-type: text/html\r\n\r\n<ht"))
	third = AppendStream(third, Stderr, 1, []byte("config error: missing SI_UID\n"))
	third = AppendStream(third, Stdout, 1, []byte("ml>\n<head>"))
	third = AppendStreamEnd(AppendStreamEnd(third, Stdout, 1), Stderr, 1)
	third = AppendEnd(third, 1, End{App: 938, Status: Complete})
	for _, test := range []struct {
		got  []byte
		want []string
	}{{first, specExamples[0].received}, {third, specExamples[2].sent}} {
		want := []byte(strings.Join(test.want, ""))
		for at := 7; at < len(want); { // reserved bytes are 0 in this package
			want[at] = 0
			at += HeaderSize + int(want[at-3])<<8 + int(want[at-2])
		}
		if !slices.Equal(test.got, want) {
			t.Errorf("\n got %q\nwant %q", test.got, want)
		}
	}
}
