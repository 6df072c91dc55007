package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// fcgiCorpus returns every stream of the tests, except the large ones.
func fcgiCorpus() map[string]string {
	all := make(map[string]string)
	add := func(name, text string) {
		if len(text) < 5000 {
			all[name] = text
		}
	}
	for name, r := range fcgiRequests {
		add("request/"+name, r.request+aGET("/next"))
	}
	for name, r := range fcgiBodies {
		add("body/"+name, r.request+aGET("/next"))
	}
	for name, pieces := range fcgiStreams {
		add("stream/"+name, strings.Join(pieces, ""))
	}
	for name, variant := range abortions {
		add("abortion/"+name, aPOST("hello")+variant.with+variant.before+strings.Join(variant.after, "")+aGET("/next"))
	}
	put := fcgiRequest{method: "PUT", body: aGET("/smuggled"), length: true}
	for name, text := range map[string]string{
		"unread": put.String() + aGET("/next"),
		"unread, GET_VALUES": put.head() + rec(stdinStream, 1, "abc") + question + begins(2, true) +
			inRecords(stdinStream, 1, 5, put.body[3:]) + aGET("/next"),
		"unread, padded": put.head() + padded(stdinStream, 1, put.body, 200) + padded(stdinStream, 1, "", 200) +
			aGET("/next"),
		"questions": question + begins(1, true) + question + aGET("/")[16:] + question + sized(2) + question +
			rec(stdinStream, 1, "h") + question + inRecords(stdinStream, 1, 1, "e") + question,
		"aborted": begins(1, true) + rec(paramsStream, 1, "\x01\x01Ab") + abort + begins(2, true) +
			rec(abortRequest, 2, "") + aGET("/"),
		"interleaved": fcgiRequest{id: 1}.head()[:40] + fcgiRequest{id: 2}.String() + fcgiRequest{id: 1}.head()[40:] +
			fcgiRequest{id: 3}.String() + rec(stdinStream, 1, ""),
		"strangers": rec(stdinStream, 0, "abcdef") + begins(1, true) + rec(paramsStream, 0, "abcdef") +
			aGET("/")[16:] + sized(3) + rec(stdinStream, 0, "abcdef") + rec(stdinStream, 1, "abc") +
			rec(stdoutStream, 0, "x") + rec(stdinStream, 1, ""),
		"unknown types": padded(99, 0, "abc", 9) + sized(3) + padded(99, 1, "abc", 9) +
			inRecords(stdinStream, 1, 2, "abc"),
		"cut off": aGET("/") + aPOST("hello")[:100],
		"many":    strings.Repeat(aGET("/")+aPOST("x"), 5),
		"a long question": begins(1, true) + rec(getValues, 0,
			strings.Repeat(nameValues("FCGI_MPXS_CONNS", ""), 100)) + aGET("/")[16:],
	} {
		add(name, text)
	}
	return all
}

// fcgiProbe reads a body, or leaves it, and responds with all that it can observe.
func fcgiProbe(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		io.ReadFull(r.Body, make([]byte, 3))
	} else {
		fcgiDump(w, r)
	}
	if r.Method != http.MethodGet {
		_ = r.Context().Err() // starts the departure watch
	}
}

// inOrder describes what came back: the responses in order, and then the replies to management
// records in order, because these do not wait for responses. Incomplete records fail the test.
func inOrder(t *testing.T, all []byte, closed bool) string {
	p := newFCGIPeer(t, nil)
	p.in.Reset(bytes.NewReader(all))
	var s, replies strings.Builder
	for {
		kind, id, content, err := p.record()
		if err == nil {
			var a *fcgiResponse
			switch a, err = p.take(kind, id, content); {
			case a != nil && a.status == cantMultiplex:
				fmt.Fprintln(&replies, a)
			case a != nil:
				a.header.Del("Date")
				fmt.Fprintln(&s, a)
			}
		}
		for _, reply := range p.management {
			fmt.Fprintln(&replies, reply)
		}
		p.management = nil
		if err != nil {
			for id, a := range p.open {
				a.stdout, _, _ = bytes.Cut(a.stdout, []byte("Date: "))
				fmt.Fprintf(&s, "%d: cut off after %q\n", id, a.stdout)
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("%v in %q", err, all)
			}
			fmt.Fprintf(&s, "closed=%v\n", closed)
			return s.String() + replies.String()
		}
	}
}

// cutAt cuts text into pieces, at random but reproducibly for a seed.
func cutAt(text string, seed uint64) (pieces []string) {
	rnd := rand.New(rand.NewPCG(seed, uint64(len(text))))
	longest := 1 + rnd.IntN(1+len(text)/2)
	for len(text) > 0 {
		n := min(len(text), 1+rnd.IntN(longest))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// FuzzFastCGI sends any bytes whole and in pieces. The responses are the same, and consist only of
// whole records.
func FuzzFastCGI(f *testing.F) {
	seed := uint64(0)
	for _, text := range fcgiCorpus() {
		seed++
		f.Add(text, seed)
	}
	f.Fuzz(func(t *testing.T, in string, seed uint64) {
		if len(in) > 5000 {
			return
		}
		samePieces(t, fcgiProbe, in, cutAt(in, seed))
	})
}

// samePieces fails unless a stream in pieces gets the same responses as whole.
func samePieces(t *testing.T, h http.HandlerFunc, in string, pieces []string) {
	t.Helper()
	whole, closed := fcgiExchange(t, fcgiServer, h, []string{in}, 0)
	split, closedToo := fcgiExchange(t, fcgiServer, h, pieces, 0)
	if got, want := inOrder(t, split, closedToo), inOrder(t, whole, closed); got != want {
		t.Errorf("pieces %q\nwhole: %s\nsplit: %s", pieces, want, got)
	}
}

// Every stream of the corpus gets the same responses byte by byte.
func TestFCGICorpusIsIndependentOfSplit(t *testing.T) {
	for name, text := range fcgiCorpus() {
		t.Run(name, func(t *testing.T) {
			samePieces(t, fcgiProbe, text, strings.Split(text, ""))
		})
	}
}
