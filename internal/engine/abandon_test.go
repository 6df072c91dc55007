package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// endings are ways for a handler to end without returning.
var endings = map[string]func(){
	"panic":  func() { panic("on purpose") },
	"abort":  func() { panic(http.ErrAbortHandler) },
	"goexit": runtime.Goexit,
	"nil":    func() { var m map[string]int; m["a"] = 1 }, //nolint:staticcheck // the panic under test
}

// endsBadly writes what the request describes, and then ends as the request describes.
func endsBadly(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	size, _ := strconv.Atoi(q.Get("size"))
	if n := q.Get("length"); n != "" {
		w.Header().Set("Content-Length", n)
	}
	if status, _ := strconv.Atoi(q.Get("status")); status > 0 {
		w.WriteHeader(status)
	}
	if q.Get("flush") == "before" {
		w.(http.Flusher).Flush()
	}
	piece := max(1, size)
	if n, _ := strconv.Atoi(q.Get("piece")); n > 0 {
		piece = n
	}
	for sent := 0; sent < size; sent += piece {
		w.Write(bytes.Repeat([]byte("x"), min(piece, size-sent)))
	}
	if q.Get("flush") == "after" {
		w.(http.Flusher).Flush()
	}
	endings[q.Get("end")]()
}

// badEndings returns requests for endsBadly.
func badEndings() (all []string) {
	for _, end := range slices.Sorted(maps.Keys(endings)) {
		sizes := []int{0, 1, 2000, 2048, 2049, 4000, 5000, 100_000}
		if end != "abort" {
			sizes = []int{0, 2049}
		}
		for _, size := range sizes {
			for _, more := range []string{"", "&flush=before", "&flush=after", "&length=200000",
				"&length=200000&flush=before", "&length=200000&flush=after", "&piece=1000", "&status=500",
				"&status=204", "&piece=700&length=200000"} {
				all = append(all, fmt.Sprintf("/?end=%s&size=%d%s", end, size, more))
			}
		}
	}
	return all
}

// outcomeOf describes what a client received, as far as all servers must agree. They may differ in
// how much of the last 2 KB was sent.
func outcomeOf(got string) (what string, body int) {
	head, rest, found := strings.Cut(got, "\r\n\r\n")
	if !found {
		return fmt.Sprintf("nothing %q", got), 0
	}
	status, _, _ := strings.Cut(head, "\r\n")
	return fmt.Sprintf("%s, ended %v", status, strings.HasSuffix(rest, "0\r\n\r\n")), strings.Count(rest, "x")
}

// exchangeAborted is exchangeText for a request after which the server closes the connection. The
// client does not close its side: over TLS that sends an alert, and one that arrives after the
// server has closed resets the connection, with net/http too, so that the end of the response is
// lost.
func (s *site) exchangeAborted(text string) string {
	s.Helper()
	c := s.connect()
	io.WriteString(c, text)
	b, err := io.ReadAll(c)
	if os.IsTimeout(err) {
		s.Errorf("no end after %q", b)
	}
	return string(b)
}

// The client receives what an aborted handler has written if it does with net/http, and at least as
// much of it.
func TestAbortedHandlerSendsWhatItWrote(t *testing.T) {
	testkit.Long(t, "it transfers much")
	for _, mode := range []string{"tcp", "net.Conn", "tls", "ServeTLS"} {
		isTLS := mode == "tls" || mode == "ServeTLS"
		t.Run(mode, func(t *testing.T) {
			theirs, ours := siteOf(t, "net/http", mode, handle(endsBadly)()),
				siteOf(t, "tare", mode, handle(endsBadly)())
			for _, target := range badEndings() {
				for _, method := range []string{"GET %s HTTP/1.1\r\n" + host + "\r\n", "HEAD %s HTTP/1.1\r\n" + host +
					"\r\n", "GET %s HTTP/1.0\r\n\r\n", "POST %s HTTP/1.1\r\n" + host +
					"Content-Length: 5\r\n\r\nhello"} {
					if (isTLS || !strings.Contains(target, "abort")) && !strings.HasPrefix(method, "GET %s HTTP/1.1") {
						continue
					}
					request := fmt.Sprintf(method, target)
					want, least := outcomeOf(theirs.exchangeAborted(request))
					got, body := outcomeOf(ours.exchangeAborted(request))
					if got != want || body < least {
						t.Errorf("%.60q: %s, %d bytes; net/http %s, %d", request, got, body, want, least)
					}
				}
			}
		})
	}
}
