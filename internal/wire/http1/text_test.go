package http1

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"
)

// Parts match their spans, in any order, and parts of a large text hold little of it.
func TestTextPartsMatchSpans(t *testing.T) {
	for _, size := range []int{0, 1, ownText, wholeText, wholeText + 1, 10 * wholeText, 1 << 20} {
		b := []byte(strings.Repeat("0123456789abcdef-", size/17+1)[:size])
		text := TextOf(b)
		if got, want := text.IsWhole(), size <= wholeText; got != want {
			t.Errorf("%d bytes: whole %v", size, got)
		}
		for range 1000 {
			start := rand.IntN(size + 1)
			s := spanOf(start, start+rand.IntN(min(size-start, 2*ownText)+1))
			got := text.Of(s)
			if got != string(s.In(b)) {
				t.Fatalf("%d bytes, %v: %q", size, s, got)
			}
			if len(text.piece) > max(wholeText, pieceText) {
				t.Fatalf("%d bytes: a piece of %d", size, len(text.piece))
			}
			if len(got) > 0 && size > wholeText && len(got) < ownText {
				from := uintptr(unsafe.Pointer(unsafe.StringData(got))) -
					uintptr(unsafe.Pointer(unsafe.StringData(text.piece)))
				if from > pieceText {
					t.Fatalf("%d bytes, %v: not in the piece", size, s)
				}
			}
		}
	}
}

func TestTextAllocations(t *testing.T) {
	b := make([]byte, wholeText)
	if n := testing.AllocsPerRun(100, func() {
		text := TextOf(b)
		for i := range 100 {
			_ = text.Of(spanOf(i, i+10))
		}
	}); n > 1 {
		t.Errorf("%v allocations for a small text", n)
	}
	b = make([]byte, 1<<20)
	if n := testing.AllocsPerRun(10, func() {
		text := TextOf(b)
		for i := 0; i < len(b)-20; i += 20 {
			_ = text.Of(spanOf(i, i+20))
		}
	}); n > 1.1*(1<<20)/pieceText {
		t.Errorf("%v allocations for a large text", n)
	}
}
