package http1

import (
	"errors"
	"testing"
)

// Only chunked is implemented, alone.
func TestTransferCodingsAreRejected(t *testing.T) {
	for value, want := range map[string]Kind{
		"chunked": 0, "Chunked": 0, " chunked ": 0,
		"": UnknownCoding, "gzip": UnknownCoding, "identity": UnknownCoding, "chunked, gzip": UnknownCoding,
		"chunked, chunked": UnknownCoding, ",": UnknownCoding, "chunked,": UnknownCoding, "xchunked": UnknownCoding,
		"chunked;x=y": UnknownCoding, "gzip, chunked": UnknownCoding, "gzip,deflate , CHUNKED": UnknownCoding,
		"chunked\r\nTransfer-Encoding: chunked": UnknownCoding,
	} {
		var r Request
		_, err := r.Parse([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "+value+"\r\n\r\n"),
			Limits{Bytes: 1000, Fields: 10})
		got := Kind(0)
		if e, ok := errors.AsType[*Error](err); ok {
			got = e.Kind
		}
		if got != want {
			t.Errorf("%q: %d (%v), want %d", value, got, err, want)
		}
	}
}

func TestHostsAreValidated(t *testing.T) {
	for host, want := range map[string]bool{
		"a": true, "a:80": true, "a:": true, "a%41": true, "%c3%a9": true, "[::1]": true, "[::1]:80": true,
		"[v1.a:b]": true, "[vF0.~!]:1": true, "..": true,
		"": false, ":80": false, "a%": false, "a%4": false, "a%zz": false, "%": false, "a%4g:80": false, "a b": false,
		"a,b": false, "a@b": false, "a\x80": false,
		"[v.a]": false, "[v1.]": false, "[v1]": false, "[vg.a]": false, "[v1.a%41]": false, "[v1.a/b]": false,
		"[v1.a": false, "[fe80::1%25a]": false, "[]": false,
	} {
		if got := ValidHost([]byte(host)); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// Line returns the part of the request line that has arrived.
func TestLineReturnsWhatHasArrived(t *testing.T) {
	for in, want := range map[string]string{
		"GET / HTTP/1.1\r\nX": "GET / HTTP/1.1", "GET /": "GET /", "GET /\r": "GET /", "": "", "\r\n": "",
		"\r\nG\r\n": "G", "\nG\n": "G", "bad\nx": "bad",
	} {
		var r Request
		_, _ = r.Parse([]byte(in), Limits{Bytes: 1000, Fields: 10})
		if got := string(r.Line([]byte(in))); got != want || r.Begun() != (len(want) > 10) {
			t.Errorf("%q: %q, %v", in, got, r.Begun())
		}
	}
}
