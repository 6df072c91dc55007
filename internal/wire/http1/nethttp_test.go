package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// stricter lists what this package rejects and net/http accepts, at least in some cases. Each is a
// deliberate difference.
var stricter = map[string]string{
	"malformed request target":                  "net/http takes an empty one for CONNECT",
	"unknown transfer coding":                   "net/http ignores any coding on HTTP/1.0",
	"malformed chunk size":                      "net/http takes space behind the size",
	"malformed chunk extension":                 "net/http takes any bytes in an extension",
	"LF without CR":                             "RFC 9112 2.2 allows a bare LF; proxies differ on it",
	"CRLF after a line that ends in LF":         "the same",
	"folded field line":                         "obsolete line folding is joined by net/http",
	"second Content-Length":                     "net/http accepts equal ones",
	"both Transfer-Encoding and Content-Length": "net/http drops the length and keeps the connection",
	"Transfer-Encoding on HTTP/1.0":             "net/http ignores the coding",
	"malformed Host":                            "net/http's server checks its bytes only",
	"missing Host":                              "http.ReadRequest leaves it to the server",
	"protocol is not HTTP/1":                    "http.ReadRequest leaves it to the server",
	"section too large":                         "http.ReadRequest leaves it to the server",
	"too many field lines":                      "net/http counts bytes only",
	"control byte in reason phrase":             "a client of net/http takes any",
	"malformed status code":                     "net/http takes 000 to 099",
	"space in field name or before its colon":   "net/http's client trims it",
}

// compareRequest parses a request head with net/http and returns an error if the results differ
// without a known reason.
func compareRequest(in []byte) error {
	var r Request
	complete, err := r.Parse(in, testLimits)
	theirs, theirErr := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
	switch {
	case err != nil && theirErr == nil:
		return knownDifference(err)
	case err != nil || !complete:
		// net/http may be more lenient with incomplete input, for example a missing final
		// CRLF
		return nil
	case theirErr != nil:
		return weMayAccept(in, theirErr)
	}
	head := in[:r.Size]
	var diff []string
	same := func(what string, ours, theirs any) {
		if fmt.Sprint(ours) != fmt.Sprint(theirs) {
			diff = append(diff, fmt.Sprintf("%s: ours %v, net/http %v", what, ours, theirs))
		}
	}
	same("method", string(r.Method.In(head)), theirs.Method)
	same("target", string(r.Target.In(head)), theirs.RequestURI)
	same("minor", r.Minor, theirs.ProtoMinor)
	same("persistent", r.IsPersistent(), !theirs.Close)
	if theirs.ContentLength < 0 {
		same("chunked", r.Body().Mode, ByChunks)
	} else {
		same("length", r.Body().Length, theirs.ContentLength)
	}
	fields := http.Header{}
	for _, f := range r.Fields {
		key := textproto.CanonicalMIMEHeaderKey(string(f.Name.In(head)))
		fields[key] = append(fields[key], string(f.Value.In(head)))
	}
	if theirs.URL.Host == "" {
		same("host", fields.Get("Host"), theirs.Host)
	}
	fields.Del("Host")
	for _, name := range []string{"Transfer-Encoding", "Trailer"} { // net/http removes these
		if _, kept := theirs.Header[name]; !kept {
			fields.Del(name)
		}
	}
	// and adds this
	if _, set := fields["Cache-Control"]; !set && fields.Get("Pragma") == "no-cache" {
		fields["Cache-Control"] = []string{"no-cache"}
	}
	same("fields", fields, theirs.Header)
	if diff != nil {
		return errors.New(strings.Join(diff, "; "))
	}
	return nil
}

func knownDifference(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%T is not an *Error: %w", err, err)
	}
	if stricter[e.What] == "" {
		return fmt.Errorf("net/http accepts what we refuse: %w", err)
	}
	return nil
}

// weMayAccept returns whether net/http rejects something that this package does not check, or
// parses differently for a reason.
func weMayAccept(in []byte, theirErr error) error {
	text := theirErr.Error()
	switch {
	case bytes.HasPrefix(in, []byte("\r\n")): // an empty line before the request (RFC 9112, 2.2)
	case strings.HasPrefix(text, "parse "): // the engine parses the target as a URL
	case strings.Contains(text, "invalid URI"):
	// an announcement, checked in the trailer section
	case strings.HasPrefix(text, "bad trailer key"):
	default:
		return fmt.Errorf("we accept what net/http refuses: %w", theirErr)
	}
	return nil
}

// compareChunked decodes a body with net/http and compares.
func compareChunked(in []byte) error {
	var c Chunked
	var ours []byte
	var err error
	for rest := in; len(rest) > 0 && !c.Done() && err == nil; {
		var data []byte
		var n int
		data, n, err = c.Next(rest)
		ours = append(ours, data...)
		rest = rest[n:]
	}
	theirs, theirErr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(in)))
	switch {
	case err != nil && theirErr == nil:
		return knownDifference(err)
	case c.Done() && theirErr != nil:
		return fmt.Errorf("we accept what net/http refuses: %w", theirErr)
	case c.Done() && !bytes.Equal(ours, theirs):
		return fmt.Errorf("ours %q, net/http %q", ours, theirs)
	}
	return nil
}

// compareResponse parses a response head with net/http and compares.
func compareResponse(in []byte) error {
	var r Response
	complete, err := r.Parse(in, testLimits)
	theirs, theirErr := http.ReadResponse(bufio.NewReader(bytes.NewReader(in)), nil)
	switch {
	case err != nil && theirErr == nil:
		return knownDifference(err)
	case err != nil || !complete:
		return nil
	case theirErr != nil:
		return fmt.Errorf("we accept what net/http refuses: %w", theirErr)
	}
	theirs.Body.Close()
	body := r.Body(false)
	ours := fmt.Sprint(r.Status, r.Minor, body.Mode == ByChunks, body.Length, r.IsPersistent() && body.Mode != UntilClose)
	want := fmt.Sprint(theirs.StatusCode, theirs.ProtoMinor,
		slices.Equal(theirs.TransferEncoding, []string{"chunked"}) && BodyAllowed(r.Status),
		max(0, theirs.ContentLength), !theirs.Close)
	if ours != want {
		return fmt.Errorf("status, minor, chunked, length, persistent: ours %s, net/http %s", ours, want)
	}
	return nil
}

// A listed difference that no vector needs would hide a real one.
func TestEveryDifferenceIsShown(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range requestVectors {
		var r Request
		_, err := r.Parse([]byte(v.in), testLimits)
		_, theirErr := http.ReadRequest(bufio.NewReader(strings.NewReader(v.in)))
		markSeen(seen, err, theirErr)
	}
	for _, v := range responseVectors {
		var r Response
		_, err := r.Parse([]byte(v.in), testLimits)
		_, theirErr := http.ReadResponse(bufio.NewReader(strings.NewReader(v.in)), nil)
		markSeen(seen, err, theirErr)
	}
	for _, v := range chunkedVectors {
		var c Chunked
		var err error
		for rest := []byte(v.in); len(rest) > 0 && err == nil && !c.Done(); {
			var n int
			_, n, err = c.Next(rest)
			rest = rest[n:]
		}
		_, theirErr := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(v.in)))
		markSeen(seen, err, theirErr)
	}
	for what := range stricter {
		if !seen[what] {
			t.Errorf("no vector shows that net/http accepts %q", what)
		}
	}
}

func markSeen(seen map[string]bool, err, theirErr error) {
	var e *Error
	if errors.As(err, &e) && theirErr == nil {
		seen[e.What] = true
	}
}

func TestVectorsGiveSameResultAsNetHTTP(t *testing.T) {
	for _, group := range []struct {
		vectors []vector
		compare func([]byte) error
	}{{requestVectors, compareRequest}, {responseVectors, compareResponse}, {chunkedVectors, compareChunked}} {
		for _, v := range group.vectors {
			if err := group.compare([]byte(v.in)); err != nil {
				t.Errorf("%s: %q: %v", v.why, v.in, err)
			}
		}
	}
}

// fuzzMax limits the run of one input at every split to about a millisecond.
const fuzzMax = 600

func fuzz(f *testing.F, vectors []vector, parse func([][]byte) string, compare func([]byte) error) {
	for _, v := range vectors {
		f.Add([]byte(v.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > fuzzMax {
			return
		}
		testkit.EverySplit(t, in, parse)
		if compare == nil {
			return
		}
		if err := compare(in); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	})
}

func FuzzRequest(f *testing.F)  { fuzz(f, requestVectors, parseRequest, compareRequest) }
func FuzzResponse(f *testing.F) { fuzz(f, responseVectors, parseResponse, compareResponse) }
func FuzzTrailer(f *testing.F)  { fuzz(f, trailerVectors, parseTrailer, nil) }
func FuzzChunked(f *testing.F)  { fuzz(f, chunkedVectors, decode, compareChunked) }
