package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http1"
)

// rawHeads are field lines of upstreams' responses, in canonical spelling.
var rawHeads = []string{
	"", "Content-Length: 5\r\n", "Content-Length: 4\r\n", "Content-Type: a/b\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\n",
	"Content-Length: 0\r\n", "Date: then\r\n", "Status: 404\r\nX-A: 1\r\n", "Content-Encoding: gzip\r\n",
	"Transfer-Encoding: chunked\r\nTrailer: X-A\r\nUpgrade: x\r\nKeep-Alive: 1\r\nConnection: close\r\nX-A: 1\r\n",
}

// parseFields returns a head with field lines, and its fields.
func parseFields(t testing.TB, lines string) ([]byte, []http1.Field) {
	head := []byte("HTTP/1.1 200 OK\r\n" + lines + "\r\n")
	var r http1.Response
	if complete, err := r.Parse(head, http1.Limits{Bytes: 1 << 20, Fields: 100}); !complete || err != nil {
		t.Fatalf("%q: %v, %v", lines, complete, err)
	}
	return head, r.Fields
}

// respondRaw responds with the head, the status and the body that the path names.
func respondRaw(t testing.TB, w http.ResponseWriter, r *http.Request) {
	var kind string
	var index, status, length int
	if _, err := fmt.Sscanf(r.URL.Path, "/%s %d %d %d", &kind, &index, &status, &length); err != nil {
		t.Error(err)
	}
	head, fields := parseFields(t, rawHeads[index])
	if kind == "raw" {
		raw := w.(connection.RawSender)
		if raw.HasFields() {
			t.Error("a new response has fields")
		}
		raw.WriteRawHeader(status, head, fields)
		for i := range head {
			head[i] = 0xdb // it belongs to the caller again
		}
	} else {
		header := w.Header()
		header["Content-Type"] = nil
		for _, f := range fields {
			name := string(f.Name.In(head))
			switch name {
			case "Connection", "Transfer-Encoding", "Trailer", "Upgrade", "Keep-Alive":
			default:
				header[name] = append(header[name], string(f.Value.In(head)))
			}
		}
		w.WriteHeader(status)
	}
	_, _ = io.WriteString(w, strings.Repeat("x", length))
}

// sortedFields returns a response with its fields sorted.
func sortedFields(response string) string {
	head, body, _ := strings.Cut(response, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	slices.Sort(lines[1:])
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// A response with fields as they were received equals one with the same fields in its Header,
// except for their order. Framing, persistence and the date are decided in the same way.
func TestRawFieldsAreFramedAsOthers(t *testing.T) {
	testkit.Long(t, "it compares many responses")
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) { respondRaw(t, w, r) }), func(s *site) {
		for index := range rawHeads {
			for _, status := range []int{200, 201, 204, 304, 404} {
				for _, length := range []int{0, 5, 3000, 40_000} {
					s.compareRaw(index, status, length)
				}
			}
		}
	})
}

// compareRaw compares responses with fields as received with those that set them in the Header.
func (s *site) compareRaw(index, status, length int) {
	s.Helper()
	for _, line := range []string{"GET %s HTTP/1.1", "HEAD %s HTTP/1.1", "GET %s HTTP/1.0"} {
		get := func(kind string) string {
			line := fmt.Sprintf(line, fmt.Sprintf("/%s%%20%d%%20%d%%20%d", kind, index, status, length))
			return withoutDate(sortedFields(s.exchangeText(line + "\r\nHost: x\r\nConnection: close\r\n\r\n")))
		}
		if got, want := get("raw"), get("map"); got != want {
			s.Errorf("%s %q %d %d\n%.300q\n want %.300q", line, rawHeads[index], status, length, got, want)
		}
	}
}

// withoutDate removes the server's date.
func withoutDate(response string) string {
	before, rest, ok := strings.Cut(response, "\r\nDate: ")
	if !ok || strings.HasPrefix(rest, "then") {
		return response
	}
	_, after, _ := strings.Cut(rest, "\r\n")
	return before + "\r\nDate: now\r\n" + after
}

// Fields keep their order and spelling, come before those of the Header, and no type is detected.
func TestRawFieldsKeepTheirSpelling(t *testing.T) {
	const lines = "x-b: 1\r\nETag: 2\r\nX-A:  3 \r\nx-b: 4\r\ncontent-length: 6\r\n"
	bothPaths(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		head, fields := parseFields(t, lines)
		w.Header().Set("X-Added", "5")
		w.(connection.RawSender).WriteRawHeader(200, head, fields)
		_, _ = io.WriteString(w, "<html>")
	}), func(s *site) {
		got, _, _ := strings.Cut(s.exchangeText("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), "Connection")
		want := "HTTP/1.1 200 OK\r\nx-b: 1\r\nETag: 2\r\nX-A: 3\r\nx-b: 4\r\nX-Added: 5\r\nContent-Length: 6\r\n"
		if got != want {
			s.Errorf("%q, want %q", got, want)
		}
	})
}

// Over FastCGI, fields about the connection and Status are dropped: Status is CGI's status line.
func TestFastCGIDropsRawConnectionFields(t *testing.T) {
	const lines = "Status: 404\r\nETag: 1\r\nKeep-Alive: 2\r\nContent-Length: 2\r\n"
	bothFCGIPaths(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		head, fields := parseFields(t, lines)
		w.(connection.RawSender).WriteRawHeader(201, head, fields)
		_, _ = io.WriteString(w, "hi")
	}), func(s *fcgiSite) {
		got := string(s.roundTrip(aGET("/")).stdout)
		head, _, _ := strings.Cut(got, "Date: ")
		want := "Status: 201 Created\r\nETag: 1\r\nContent-Length: 2\r\n"
		if head != want || !strings.HasSuffix(got, "hi") {
			s.Errorf("%q, want %q", got, want)
		}
	})
}
