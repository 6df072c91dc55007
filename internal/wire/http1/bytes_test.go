package http1

import (
	"slices"
	"strings"
	"testing"
)

// The classes are specified a second time, byte by byte, as in the RFCs.
func TestClassesFollowRFCs(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	isAlnum := func(c byte) bool {
		return strings.IndexByte(letters+strings.ToUpper(letters), c) >= 0 || '0' <= c && c <= '9'
	}
	for i := range 256 {
		c := byte(i)
		for _, want := range []struct {
			name  string
			class class
			in    bool
		}{
			{"token", tokenByte, isAlnum(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0},
			{"target", targetByte, c > ' ' && c != 0x7f},
			{"value", valueByte, c >= ' ' && c != 0x7f || c == '\t'},
			{"host", hostByte, isAlnum(c) || strings.IndexByte("-._~%!$&'()*+;=", c) >= 0},
			{"digit", digitByte, '0' <= c && c <= '9'},
			{"hex", hexByte, '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'},
		} {
			if got := classes[c]&want.class != 0; got != want.in {
				t.Errorf("%q is a %s byte: %v, want %v", c, want.name, got, want.in)
			}
		}
		if got := isDigit(c); got != ('0' <= c && c <= '9') {
			t.Errorf("isDigit(%q) = %v", c, got)
		}
	}
}

// Every byte is tested at every place of values of up to three words, and at several offsets within
// a word. The other bytes are at the limits of the allowed range.
func TestValueSpanFindsFirstInvalidByte(t *testing.T) {
	const longest = 24
	for _, around := range []byte{' ', 'a', 0x7e, 0x80, 0xff} {
		for _, offset := range []int{0, 1, 4, 7} {
			memory := slices.Repeat([]byte{around}, offset+longest)
			for length := range longest + 1 {
				b := memory[offset : offset+length]
				for at := range b {
					for c := range 256 {
						b[at] = byte(c)
						if got, want := ValueSpan(b), span(b, valueByte); got != want {
							t.Fatalf("ValueSpan(%q) = %d, want %d", b, got, want)
						}
					}
					b[at] = around
				}
			}
		}
	}
}

func TestEqualFoldIgnoresASCIICase(t *testing.T) {
	for _, test := range []struct {
		b, s string
		want bool
	}{
		{"", "", true}, {"close", "close", true}, {"ClOsE", "close", true}, {"AZaz09-", "azaz09-", true},
		{"clos", "close", false}, {"closes", "close", false}, {"close", "", false}, {"blose", "close", false},
		{"[", "{", false}, {"@", "`", false}, {"\xc1", "\xe1", false},
	} {
		if got := equalFold([]byte(test.b), test.s); got != test.want {
			t.Errorf("equalFold(%q, %q) = %v", test.b, test.s, got)
		}
	}
}

func TestTrimSpaceRemovesSpaceAndTab(t *testing.T) {
	for in, want := range map[string]string{"": "", " ": "", "\t \t": "", "a": "a", " \ta b\t ": "a b",
		"\ra\n": "\ra\n"} {
		if start, end := trimSpace([]byte(in), 0, len(in)); in[start:end] != want {
			t.Errorf("trimSpace(%q) = %q", in, in[start:end])
		}
	}
}

func TestValidHostFollowsGrammar(t *testing.T) {
	for host, want := range map[string]bool{
		"a": true, "a:80": true, "a:": true, "a.b_c~%41": true, "127.0.0.1:1": true, "[::1]": true, "[::1]:80": true,
		"[fe80::1.2.3.4]": true, "[::A]:": true,
		"": false, ":80": false, "a:8a": false, "a:80:80": false, "[": false, "[]": false, "[::1": false,
		"[::1]80": false,
		"[::g]":   false, "::1": false, "a b": false, "a,b": false, "a/b": false, "u@a": false, "a\x00": false,
		"[::1]:8a": false,
	} {
		if got := ValidHost([]byte(host)); got != want {
			t.Errorf("ValidHost(%q) = %v", host, got)
		}
	}
}

func TestElementsSplitsLists(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", "a,b": "a|b", " a ,\tb\t": "a|b", ",,a, ,b,": "a|b", "a b": "a b",
	} {
		var got []string
		for e := range Elements([]byte(in)) {
			got = append(got, string(e))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("Elements(%q) = %q", in, got)
		}
	}
	for list, want := range map[string]bool{"close": true, "keep-alive, Close": true, "closed": false, "": false,
		" ,close ,": true, "a,\r\n close": true, "clo\u017fe": false} {
		if HasToken([]string{"x", list}, "cLose") != want {
			t.Errorf("%q", list)
		}
	}
	for e := range Elements([]byte("a,b")) {
		if string(e) == "a" {
			break
		}
		t.Error("went on after break")
	}
}
