package proxyproto

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// v2 returns a version 2 header.
func v2(command, family byte, rest string) string {
	return signature + string([]byte{command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
}

const (
	fourAddrs = "\xc0\x00\x02\x01\xc0\x00\x02\x02\x03\xe8\x00\x50"
	sixAddr   = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
)

func TestParseReadsBothVersions(t *testing.T) {
	const none = "invalid AddrPort invalid AddrPort"
	for text, want := range map[string]string{
		"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n":           "192.0.2.1:1000 192.0.2.2:80",
		"PROXY TCP6 2001:db8::1 ::1 0 65535\r\n":               "[2001:db8::1]:0 [::1]:65535",
		"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n":              "192.0.2.1:1 [::1]:2",
		"PROXY UNKNOWN\r\n":                                    none,
		"PROXY UNKNOWN 192.0.2.1 192.0.2.2 1 2\r\n":            none,
		v2(0x21, 0x11, fourAddrs):                              "192.0.2.1:1000 192.0.2.2:80",
		v2(0x21, 0x11, fourAddrs+"\x04\x00\x01x"):              "192.0.2.1:1000 192.0.2.2:80",
		v2(0x21, 0x21, sixAddr+sixAddr+"\x00\x01\x00\x02"):     "[2001:db8::1]:1 [2001:db8::1]:2",
		v2(0x20, 0x11, fourAddrs):                              none, // LOCAL
		v2(0x20, 0x00, ""):                                     none,
		v2(0x21, 0x00, ""):                                     none, // UNSPEC
		v2(0x21, 0x00, fourAddrs):                              none,
		v2(0x21, 0x31, strings.Repeat("/", 216)):               none, // AF_UNIX
		v2(0x21, 0x31, ""):                                     none,
		v2(0x21, 0x12, fourAddrs):                              none, // UDP
		v2(0x2f, 0x11, fourAddrs):                              none, // an unknown command
		v2(0x21, 0x11, fourAddrs[:11]):                         "error",
		v2(0x21, 0x21, fourAddrs):                              "error",
		v2(0x11, 0x11, fourAddrs):                              "error",
		v2(0x21, 0x11, strings.Repeat("x", 4<<10)):             "error",
		"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\n":             "error",
		"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80 \r\n":          "error",
		"PROXY TCP4  192.0.2.1 192.0.2.2 1000 80\r\n":          "error",
		"PROXY TCP4 ::1 ::1 1000 80\r\n":                       "error",
		"PROXY TCP6 192.0.2.1 192.0.2.2 1000 80\r\n":           "error",
		"PROXY TCP6 fe80::1%lo ::1 1000 80\r\n":                "error",
		"PROXY TCP4 192.0.2.256 192.0.2.2 1000 80\r\n":         "error",
		"PROXY TCP4 192.0.2.1 192.0.2.2 65536 80\r\n":          "error",
		"PROXY TCP4 192.0.2.1 192.0.2.2 +1 80\r\n":             "error",
		"PROXY TCP4 192.0.2.1 192.0.2.2  80\r\n":               "error",
		"PROXY TCP4 192.0.2.1 192.0.2.2 99999999999999 80\r\n": "error",
		"PROXY \r\n": "error",
		"PROXY TCP5 192.0.2.1 192.0.2.2 1000 80\r\n":        "error",
		"proxy TCP4 192.0.2.1 192.0.2.2 1000 80\r\n":        "error",
		"PROXY UNKNOWN " + strings.Repeat("x", 90) + "\r\n": none,
		"PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n": "error",
		"GET / HTTP/1.1\r\n":                                "error",
		"\x16\x03\x01":                                      "error",
	} {
		h, size, err := parse([]byte(text + "GET"))
		got := h.Source.String() + " " + h.Destination.String()
		if err != nil {
			got = "error"
		}
		if got != want || err == nil && size != len(text) {
			t.Errorf("%q: %s, %d bytes, %v; want %s", text, got, size, err, want)
		}
		for n := range text { // a prefix is incomplete, never something else
			if h, size, err := parse([]byte(text[:n])); want != "error" && (size != 0 || err != nil || h != Header{}) {
				t.Errorf("%q: %d bytes: %v, %v", text, n, size, err)
			}
		}
	}
}

// FuzzParse: the parsed header lies within the input, and more input does not change it.
func FuzzParse(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n"))
	f.Add([]byte(v2(0x21, 0x11, fourAddrs)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, size, err := parse(b)
		if size > len(b) || err != nil && (h != Header{}) {
			t.Fatalf("%d of %d bytes, %v, %v", size, len(b), h, err)
		}
		if size > 0 || err != nil {
			if again, n, e := parse(append(b[:len(b):len(b)], 'x')); again != h || n != size ||
				e != err { //nolint:errorlint // the same value
				t.Fatalf("with more behind it: %v %d %v; without: %v %d %v", again, n, e, h, size, err)
			}
		}
	})
}

// The header may arrive in any pieces, and together with data.
func TestConnRemovesHeaderAtEverySplit(t *testing.T) {
	const text = "PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\nhello"
	for at := 1; at < len(text); at++ {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = io.WriteString(theirs, text[:at])
			_, _ = io.WriteString(theirs, text[at:])
			theirs.Close()
		}()
		c := &Conn{Conn: ours}
		if b, err := io.ReadAll(c); string(b) != "hello" || err != nil || c.Header.Source.String() != "192.0.2.1:1000" {
			t.Errorf("split at %d: %q, %v, from %v", at, b, err, c.Header.Source)
		}
		ours.Close()
	}
}

func TestBrokenIsCalledForInvalidHeader(t *testing.T) {
	for text, want := range map[string]error{"GET / HTTP/1.0\r\n\r\n": errBroken, "PROXY TCP4": io.ErrUnexpectedEOF,
		"": io.EOF} {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = io.WriteString(theirs, text)
			theirs.Close()
		}()
		var reported error
		broken := func(_ net.Addr, err error) { reported = errors.Join(reported, err) }
		c := &Conn{Conn: ours, listener: &Listener{Broken: broken}}
		for range 2 {
			if n, err := c.Read(make([]byte, 10)); n != 0 || !errors.Is(err, want) {
				t.Errorf("%q: read %d, %v; want %v", text, n, err, want)
			}
		}
		testkit.Equal(t, reported == nil, text == "", text)
		ours.Close()
	}
}
