package engine_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A malformed request receives a response. If it is complete, its stream is also reset, as h2spec
// requires. Other streams go on.
func TestMalformedHTTP2RequestsReceive400(t *testing.T) {
	get := []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"}
	with := func(fields ...string) []string { return append(get[:len(get):len(get)], fields...) }
	without := func(at int, value string) []string {
		if value == "" {
			return append(get[:at:at], get[at+2:]...)
		}
		return append(append(get[:at+1:at+1], value), get[at+2:]...)
	}
	everyHTTP2Mode(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("X-Malformed") != "" {
			t.Errorf("a handler receives %s %v", r.Method, r.Header)
		}
	}, func(s *http2Site) {
		for name, fields := range map[string][]string{
			"upper case":          with("X-Malformed", "1"),
			"control byte":        with("a", "x\x00y"),
			"connection":          with("connection", "close"),
			"te":                  with("te", "gzip"),
			"two te":              with("te", "trailers", "te", "trailers"),
			"host":                with("host", "b"),
			"content-length":      with("content-length", "x"),
			"two content-lengths": with("content-length", "0", "content-length", "1"),
			"unknown pseudo":      with(":a", "b"),
			"late pseudo":         with("a", "b", ":protocol", "c"),
			"status":              append([]string{":status", "200"}, get...),
			"no method":           without(0, ""),
			"method":              without(0, "G T"),
			"scheme":              without(2, "ftp"),
			"no path":             without(4, ""),
			"path":                without(4, "/a b"),
			"escape":              without(4, "/%zz"),
			"authority":           without(6, "a b"),
		} {
			for _, ends := range []bool{true, false} {
				c := s.raw()
				c.request(1, ends, fields...)
				c.open(3, http.MethodGet, "/", true)
				c.send()
				want := "400"
				if ends && name != "escape" { // it is not malformed by HTTP/2's rules
					want = "400 PROTOCOL_ERROR"
				}
				if first, status, _ := c.responses(); first != want || status != "200" {
					t.Errorf("%s: %s, complete %v: %q, and then %q", s.mode, name, ends, first, status)
				}
				c.Close()
			}
		}
	})
}

// net/http's client sends a request again whose stream was reset with PROTOCOL_ERROR, and never
// stops. It also sends space around values.
func TestGoClientSendsEachHTTP2RequestOnce(t *testing.T) {
	everyHTTP2Mode(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("X-A")) },
		func(s *http2Site) {
			for _, c := range []struct{ name, value, want string }{
				{"X-A", "\tBearer token ", "200 OK Bearer token"},
				{"Te", "gzip", "400 Bad Request 400 Bad Request: TE field other than trailers"},
			} {
				sent := 0
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					WroteRequest: func(httptrace.WroteRequestInfo) { sent++ }})
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
				testkit.Must(t, err)
				r.Header.Set(c.name, c.value)
				response, err := s.client.Do(r)
				if err != nil {
					t.Fatalf("%s: %v", s.mode, err)
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				got := strings.TrimSpace(response.Status + " " + string(body))
				if err != nil || got != c.want || sent != 1 {
					t.Errorf("%s: %q %v, want %q; sent %d times", s.mode, got, err, c.want, sent)
				}
			}
		})
}
