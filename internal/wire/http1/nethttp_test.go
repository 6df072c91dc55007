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

// A parser reads one kind of input. Its vectors are the seeds of its fuzz target, which reads them at
// every split and beside the standard library.
type parser struct {
	vectors []vector
	parse   func(pieces [][]byte) string
	// compare passes an input to this package and to the standard library. It returns
	// whether the input was complete, how the results differ, and their errors. It may be nil.
	compare func(in []byte) (complete bool, difference string, ours, theirs error)
	library string // a key of stricter
}

func parsers() map[string]parser {
	return map[string]parser{
		"request":  {requestVectors, parseRequest, compareRequest, "net/http"},
		"response": {responseVectors, parseResponse, compareResponse, "net/http"},
		"chunked":  {chunkedVectors, decode, compareChunked, "net/http"},
		"trailer":  {trailerVectors, parseTrailer, nil, ""},
		"CGI":      {cgiVectors, parseCGI, compareCGI, "net/textproto"},
	}
}

// The results are those of the standard library, except for the listed differences. A listed one
// that no vector shows would hide another.
func TestVectorsGiveSameResultAsStandardLibrary(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range parsers() {
		for _, v := range p.vectors {
			seen[p.library+p.differs(t, []byte(v.in))] = true
		}
	}
	for library, list := range stricter {
		for what := range list {
			testkit.Equal(t, seen[library+what], true, "a vector shows that", library, "accepts", what)
		}
	}
}

// differs returns what this package rejects and the standard library accepts, if that is listed. It
// fails the test if the results differ in another way.
func (p *parser) differs(t *testing.T, in []byte) (what string) {
	t.Helper()
	if p.compare == nil {
		return ""
	}
	complete, difference, ours, theirs := p.compare(in)
	switch e, isError := errors.AsType[*Error](ours); {
	case ours != nil && theirs == nil:
		if !isError || stricter[p.library][e.What] == "" {
			t.Fatalf("%.200q: %s accepts what we refuse: %v", in, p.library, ours)
		}
		return e.What
	case ours != nil || !complete:
		// net/http may be more lenient with incomplete input, for example a missing final CRLF
	case theirs != nil:
		t.Errorf("%.200q: we accept what %s refuses: %v", in, p.library, theirs)
	case difference != "":
		t.Errorf("%.200q: %s", in, difference)
	}
	return ""
}

// different returns how two results differ, or "".
func different(what string, ours, theirs any) string {
	if fmt.Sprint(ours) == fmt.Sprint(theirs) {
		return ""
	}
	return fmt.Sprintf("%s: ours %v, theirs %v; ", what, ours, theirs)
}

// fuzzMax limits the run of one input at every split to about a millisecond.
const fuzzMax = 600

func fuzz(f *testing.F, p parser) {
	vectors := make(map[string]vector)
	for _, v := range p.vectors {
		vectors[v.in] = v
		f.Add([]byte(v.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if v, isVector := vectors[string(in)]; isVector || len(in) <= fuzzMax {
			testkit.Contains(t, testkit.EverySplit(t, in, p.parse), v.want, v.why)
			p.differs(t, in)
		}
	})
}

func FuzzRequest(f *testing.F)  { fuzz(f, parsers()["request"]) }
func FuzzResponse(f *testing.F) { fuzz(f, parsers()["response"]) }
func FuzzTrailer(f *testing.F)  { fuzz(f, parsers()["trailer"]) }
func FuzzChunked(f *testing.F)  { fuzz(f, parsers()["chunked"]) }
func FuzzCGI(f *testing.F)      { fuzz(f, parsers()["CGI"]) }

// stricter lists what this package rejects and the standard library accepts, at least in some cases.
// Each is a deliberate difference.
var stricter = map[string]map[string]string{
	"net/http": {
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
	},
	"net/textproto": { // which reads CGI's lines, that may also end in LF
		"malformed Status":                        "a field like others",
		"second Status":                           "the same",
		"malformed Content-Length":                "the same",
		"second Content-Length":                   "the same",
		"Content-Length out of range":             "the same",
		"section too large":                       "no limit",
		"too many field lines":                    "the same",
		"folded field line":                       "obsolete line folding is joined",
		"space in field name or before its colon": "trimmed",
	},
}

func compareRequest(in []byte) (complete bool, diff string, err, theirErr error) {
	var r Request
	complete, err = r.Parse(in, testLimits)
	theirs, theirErr := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
	if err != nil || !complete || theirErr != nil {
		return complete && !mayAccept(in, theirErr), "", err, theirErr
	}
	head := in[:r.Size]
	same := func(what string, ours, theirs any) { diff += different(what, ours, theirs) }
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
	return true, diff, nil, nil
}

// mayAccept reports whether net/http rejects something that this package does not check, or parses
// differently for a reason.
func mayAccept(in []byte, theirErr error) bool {
	text := fmt.Sprint(theirErr)
	return bytes.HasPrefix(in, []byte("\r\n")) || // an empty line before the request (RFC 9112, 2.2)
		strings.HasPrefix(text, "parse ") || strings.Contains(text, "invalid URI") || // the engine parses the target
		strings.HasPrefix(text, "bad trailer key") // an announcement, checked in the trailer section
}

func compareChunked(in []byte) (complete bool, diff string, err, theirErr error) {
	var c Chunked
	ours, _, err := feed(&c, in)
	theirs, theirErr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(in)))
	return c.Done(), different("body", string(ours), string(theirs)), err, theirErr
}

func compareResponse(in []byte) (complete bool, diff string, err, theirErr error) {
	var r Response
	complete, err = r.Parse(in, testLimits)
	theirs, theirErr := http.ReadResponse(bufio.NewReader(bytes.NewReader(in)), nil)
	if err != nil || !complete || theirErr != nil {
		return complete, "", err, theirErr
	}
	theirs.Body.Close()
	body := r.Body(false)
	ours := fmt.Sprint(r.Status, r.Minor, body.Mode == ByChunks, body.Length, r.IsPersistent() && body.Mode != UntilClose)
	want := fmt.Sprint(theirs.StatusCode, theirs.ProtoMinor,
		slices.Equal(theirs.TransferEncoding, []string{"chunked"}) && BodyAllowed(r.Status),
		max(0, theirs.ContentLength), !theirs.Close)
	return true, different("status, minor, chunked, length, persistent", ours, want), nil, nil
}
