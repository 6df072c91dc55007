//go:build unix

package engine_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// These tests send records at unusual times. Section 4 of the specification allows management
// records at any time, and section 3.3 frees an id with END_REQUEST.

// splits are ways for bytes to arrive.
var splits = map[string]func(string) []string{
	"whole":        func(s string) []string { return []string{s} },
	"byte by byte": func(s string) []string { return strings.Split(s, "") },
	"random": func(s string) (pieces []string) {
		for len(s) > 0 {
			n := min(1+rand.IntN(20), len(s))
			pieces = append(pieces, s[:n])
			s = s[n:]
		}
		return pieces
	},
}

// inSplits runs a test over every kind of connection with every split.
func inSplits(t *testing.T, h http.HandlerFunc, test func(p *fcgiPeer, write func(string))) {
	everyFCGIMode(t, handle(h), func(s *fcgiSite) {
		for name, split := range splits {
			s.Run(name, func(t *testing.T) {
				p := s.in(t).peer()
				defer p.Close()
				test(p, func(text string) {
					for _, piece := range split(text) {
						if _, err := io.WriteString(p, piece); err != nil {
							t.Fatal(err)
						}
					}
				})
			})
		}
	})
}

// Management records get their replies at once in each state of a connection. No further input and
// no end of a response is necessary.
func TestFCGIManagementRecordsGetRepliesAtAnyTime(t *testing.T) {
	// After GET_VALUES comes a large record of an unknown type.
	records := question + rec(99, 0, strings.Repeat("x", 10_000)) + padded(100, 7, "abc", 5)
	inSplits(t, readsAtPath, func(p *fcgiPeer, write func(string)) {
		replies := func(state string) {
			for _, want := range []string{`10 "\x0f\x01FCGI_MPXS_CONNS0"`, `11 "c\x00\x00\x00\x00\x00\x00\x00"`,
				`11 "d\x00\x00\x00\x00\x00\x00\x00"`} {
				kind, id, content, err := p.record()
				if got := fmt.Sprintf("%d %q", kind, content); got != want || id != 0 || err != nil {
					p.Errorf("%s: %s for %d, %v", state, got, id, err)
				}
			}
		}
		whole := fcgiRequest{method: "POST", body: "hello", length: true}.String()
		head, parameters := begins(1, true), len(fcgiRequest{method: "POST", body: "hello", length: true}.head())
		for range 2 {
			write(records)
			replies("idle")
			write(head + records)
			replies("begun")
			write(whole[len(head):parameters] + records)
			replies("before STDIN")
			write(rec(stdinStream, 1, "he") + records)
			replies("in STDIN")
			write(inRecords(stdinStream, 1, 9, "llo"))
			if a := p.readResponse(); a.body != "/ hello<nil>" {
				p.Error(a)
			}
			write(fcgiRequest{method: "POST", uri: "/unread"}.head() + rec(stdinStream, 1, "he"))
			p.readResponse()
			write(records)
			replies("in unread STDIN")
			write(rec(stdinStream, 1, ""))
		}
	})
}
