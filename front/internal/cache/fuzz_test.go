package cache

import (
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// perByte is the number of bytes that may be allocated per input byte: headers are maps of slices
// of strings.
const perByte = 64

// allocates fails if f allocates more than allowed for an input of that length.
func allocates(t *testing.T, bytes int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	// other goroutines allocate, too
	most := uint64(perByte*bytes) + 64<<10
	testkit.Between(t, after.TotalAlloc-before.TotalAlloc, 0, most, "allocated bytes for", bytes)
}

// Cache-Control is parsed without panics or large allocations, and never more permissively than its
// plain text.
func FuzzControl(f *testing.F) {
	for _, s := range []string{
		"", "max-age=60", `no-store, x="a,\"b", private="y"`, "s-maxage=1,max-age=99999999999999999999", `max-age="5"`,
		`x="no-store`, "=,=,;", "max-age",
		"no-cache=\"a\x00\"", " ,, PUBLIC ,\tmust-revalidate", `a="\`,
	} {
		f.Add(s, "max-age=10")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		var d directives
		allocates(t, len(one)+len(two), func() { d = parseControl([]string{one, two}) })
		_, _ = parseTargeted([]string{one, two}) // must not panic
		for _, s := range []span{d.maxAge, d.sharedMaxAge, d.staleIfError, d.staleWhileRevalidate} {
			if s.seconds < 0 || s.seconds > maxSeconds || !s.isSet && s.seconds != 0 {
				t.Errorf("%q: %+v", one, s)
			}
		}
		// Without quotes and arguments there is only one way to read it.
		if !strings.ContainsAny(one+two, `"=`) {
			for word := range strings.SplitSeq(one+","+two, ",") {
				if strings.EqualFold(strings.Trim(word, " \t"), "no-store") != d.noStore && !d.noStore {
					t.Errorf("%q, %q: no-store was ignored", one, two)
				}
			}
		}
	})
}

func FuzzStored(f *testing.F) {
	for range 3 {
		f.Add(appendStored(nil, someStored()))
	}
	f.Add([]byte("\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s *stored
		var err error
		allocates(t, len(b), func() { s, err = parseStored(b) })
		if err != nil {
			return
		}
		again, err := parseStored(appendStored(nil, s))
		testkit.Check(t, err)
		testkit.Equal(t, again, s)
	})
}

func FuzzPrelude(f *testing.F) {
	b, _ := appendHead(nil, prelude{bodySum: 7, body: 9}, someStored())
	f.Add(b[:preludeSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parsePrelude(b); err == nil && (p.room > maxRoom || p.length > p.room || p.body < 0) {
			t.Errorf("%+v", p)
		}
	})
}

// someStored returns any response.
func someStored() *stored {
	text := func() string { return strings.Repeat("é\x00x", rand.IntN(9)) }
	s := &stored{key: text(), status: 200 + rand.IntN(300), header: http.Header{}, life: lifetime{
		received: time.Unix(0, rand.Int64N(1<<60)), age: time.Duration(rand.Int64()),
		fresh:        time.Unix(0, rand.Int64N(1<<60)),
		revalidating: time.Duration(rand.Int64()), strict: rand.IntN(2) == 0,
	}}
	for range rand.IntN(5) {
		s.header[text()] = []string{text(), text()}
		s.choices = append(s.choices, choice{text(), text()})
	}
	return s
}
