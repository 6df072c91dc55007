package fcgi

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/fcgi"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tarehq/tare/internal/testkit"
)

// stricter lists the errors after which net/http/fcgi reads on. Each is a deliberate difference.
var stricter = map[string]string{
	"invalid record type 0":                 "net/http/fcgi takes it like any other type that it does not know",
	"message too long":                      "net/http/fcgi reads messages of any length",
	"STDIN before the end of PARAMS":        "net/http/fcgi serves what is complete of the parameters: nothing",
	"PARAMS record after the end of PARAMS": "net/http/fcgi adds parameters that come after their end",
}

// incomparable lists what is no error of this package, and after which nothing can be compared.
var incomparable = map[string]string{
	interleaved:   "net/http/fcgi serves requests that interleave, which no web server sends",
	numberZero:    "net/http/fcgi takes 0 for a request's id",
	withRequestID: "net/http/fcgi tells values to a request, too",
}

const (
	interleaved   = "requests interleave"
	numberZero    = "request 0"
	withRequestID = "GET_VALUES with an id"
)

// The results are those of net/http/fcgi, except for the listed differences. A listed one that no
// vector shows would hide another.
func TestVectorsGiveSameResultAsNetHTTP(t *testing.T) {
	seen := make(map[string]bool)
	for _, v := range requestVectors {
		seen[compareNetHTTP(t, []byte(v.in))] = true
	}
	for _, list := range []map[string]string{stricter, incomparable} {
		for fault, why := range list {
			testkit.Equal(t, seen[fault], true, "a vector shows that", why)
		}
	}
}

// An outcome is the result for a connection's bytes.
type outcome struct {
	served    []string // with everything that a handler observes, in any order
	replies   int      // responses to GET_VALUES
	misplaced int      // requests rejected because of their role
	closed    bool     // nothing more is read
	fault     string   // this package's error
	read      int      // bytes that this package has processed
}

// compareNetHTTP passes the same bytes to net/http/fcgi, and fails the test if the results differ
// without a known reason. It returns this package's error if the results differ.
func compareNetHTTP(t *testing.T, in []byte) (fault string) {
	t.Helper()
	ours := readOurs(t, in)
	theirs := serveStd(t, in[:ours.read])
	switch isEqual := slices.Equal(ours.served, theirs.served) && ours.replies == theirs.replies &&
		ours.misplaced == theirs.misplaced && ours.closed == theirs.closed; {
	case isEqual:
		return ""
	case incomparable[ours.fault] != "", stricter[ours.fault] != "" && subset(ours.served, theirs.served):
		return ours.fault
	}
	t.Errorf("%.300q\n  ours %+v\ntheirs %+v", in, ours, theirs)
	return ""
}

// subset reports whether b contains all of a, as often.
func subset(a, b []string) bool {
	b = slices.Clone(b)
	for _, s := range a {
		i := slices.Index(b, s)
		if i < 0 {
			return false
		}
		b = slices.Delete(b, i, i+1)
	}
	return true
}

// readOurs reads the complete records: net/http/fcgi processes no others.
func readOurs(t *testing.T, in []byte) *outcome {
	ends := recordEnds(in)
	in = in[:ends[len(ends)-1]]
	a := application{TB: t, limit: roomy, small: true, once: true}
	o := &outcome{closed: !a.receive(in), replies: a.counts[ValuesRequested], misplaced: a.counts[Misplaced],
		read: len(in)}
	for _, x := range a.all {
		o.served = append(o.served, x.asServed())
	}
	slices.Sort(o.served)
	if o.closed {
		at := a.at
		var e *Error
		if errors.As(a.err, &e) {
			o.fault = e.What
			at += e.Offset + 1
		}
		i, _ := slices.BinarySearch(ends, at)
		o.read = ends[i]
	}
	for _, end := range ends[:len(ends)-1] {
		switch h := parseHeader(in[end:]); {
		case end >= o.read:
		case a.counts[Second] > 0:
			o.fault = interleaved
		case h.Type == BeginRequest && h.ID == 0:
			o.fault = numberZero
		case h.Type == GetValues && h.ID != 0:
			o.fault = withRequestID
		}
	}
	return o
}

// recordEnds returns the boundaries of the complete records. One of another version is complete
// with its header.
func recordEnds(in []byte) (ends []int) {
	for at := 0; ; {
		ends = append(ends, at)
		if len(in)-at < HeaderSize || at > 0 && in[ends[len(ends)-2]] != version {
			return ends
		}
		h := parseHeader(in[at:])
		if at += HeaderSize; in[at-HeaderSize] == version {
			at += int(h.Length) + int(h.Padding)
		}
		if at > len(in) {
			return ends
		}
	}
}

// asServed describes what a handler of net/http/fcgi would receive. A malformed list ends at its
// fault: a user of NextPair decides what to do then.
func (x *exchange) asServed() string {
	params := make(map[string]string)
	for at := 0; at < len(x.list); {
		p, next, err := NextPair(x.list, at)
		if err != nil {
			break
		}
		params[string(p.Name.In(x.list))] = string(p.Value.In(x.list))
		at = next
	}
	r, err := cgi.RequestFromMap(params)
	if err != nil {
		return "refused: " + err.Error()
	}
	maps.DeleteFunc(params, func(name, _ string) bool {
		return strings.HasPrefix(name, "HTTP_") || slices.Contains([]string{
			"CONTENT_LENGTH", "CONTENT_TYPE", "HTTPS", "PATH_INFO", "QUERY_STRING", "REMOTE_ADDR", "REMOTE_HOST",
			"REMOTE_PORT",
			"REQUEST_METHOD", "REQUEST_URI", "SCRIPT_NAME", "SERVER_PROTOCOL",
		}, name)
	})
	end := x.end
	if end == "empty" {
		end = "ended"
	}
	return asServed(r, params, x.body, end)
}

func asServed(r *http.Request, env map[string]string, body []byte, end string) string {
	for _, values := range r.Header {
		slices.Sort(values) // values of names that become the same field come in any order
	}
	return fmt.Sprintf("%s %s %s host %q, %d bytes from %s, TLS %v, %q, %q, body %q %s", r.Method, r.URL, r.Proto,
		r.Host,
		r.ContentLength, r.RemoteAddr, r.TLS != nil, r.Header, env, body, end)
}

// serveStd passes records to net/http/fcgi, and waits after each until it is idle. There,
// requests of one connection run concurrently, and one may close it before another has responded.
func serveStd(t *testing.T, in []byte) *outcome {
	o := new(outcome)
	synctest.Test(t, func(t *testing.T) {
		var network testkit.Network
		l := network.Listen()
		var mu sync.Mutex
		go func() {
			_ = fcgi.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				end := "cut off"
				switch {
				case err == nil:
					end = "ended"
				case errors.Is(err, fcgi.ErrRequestAborted):
					end = "aborted"
				}
				mu.Lock()
				defer mu.Unlock()
				o.served = append(o.served, asServed(r, fcgi.ProcessEnv(r), body, end))
			}))
		}()
		c := testkit.Value(network.Dial())(t)
		ends := recordEnds(in)
		var responses []byte
		for i, end := range ends[1:] {
			_, _ = c.Write(in[ends[i]:end]) // it may have been closed
			synctest.Wait()
			var some []byte
			some, o.closed = c.Received()
			responses = append(responses, some...)
		}
		o.readResponses(t, responses)
		c.Close()
		synctest.Wait() // for handlers whose bodies are cut off
		l.Close()
	})
	slices.Sort(o.served)
	return o
}

// readResponses reads what net/http/fcgi writes: its records have padding.
func (o *outcome) readResponses(t *testing.T, b []byte) {
	var r Reader
	for len(b) > 0 {
		p, n, err := r.Next(b)
		if err != nil || n == 0 || r.Left() > 0 {
			t.Fatalf("%d bytes of %q: %v", n, b, err)
		}
		b = b[n:]
		switch p.Type {
		case 0: // padding
		case Stderr:
			o.served = append(o.served, "refused: "+string(p.Content))
		case GetValuesResult:
			if p.Length > 0 { // not the end of a stream
				o.replies++
			}
		case EndRequest:
			if end, err := ParseEnd(p.Content); err != nil {
				t.Error(err)
			} else if end.Status == UnknownRole {
				o.misplaced++
			}
		}
	}
}
