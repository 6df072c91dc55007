package fcgi

import (
	"os"
	"testing"
)

// capturedFiles hold what nginx sends for a simple GET and for one with 30 fields.
var capturedFiles = map[string]string{"GET": "testdata/get-keep.fcgi", "30 fields": "testdata/headers-keep.fcgi"}

// readRequest reads a request that has arrived whole, and its parameters.
func readRequest(tb testing.TB, r *Request, in []byte) (pairs int) {
	r.Done()
	if event, err := r.Next(in, 1<<16); event != Ready || err != nil || r.Size != len(in) || len(r.Params) != 1 {
		tb.Fatal(event, err)
	}
	list := r.Params[0].In(in)
	for at := 0; at < len(list); pairs++ {
		_, next, err := NextPair(list, at)
		if err != nil {
			tb.Fatal(err)
		}
		at = next
	}
	return pairs
}

func BenchmarkRequest(b *testing.B) {
	for name, file := range capturedFiles {
		b.Run(name, func(b *testing.B) {
			in, err := os.ReadFile(file)
			if err != nil {
				b.Fatal(err)
			}
			var r Request
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				readRequest(b, &r, in)
			}
		})
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	for name, file := range capturedFiles {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r Request
		if n := readRequest(t, &r, in); n < 20 {
			t.Errorf("%s: %d parameters", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { readRequest(t, &r, in) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
	// The same byte by byte, in several records, with others between.
	in := []byte(between(record(Stdin, 7, "stranger", 5) + plain(Data, 1, "data")))
	var r Request
	trickle := func() {
		r.Reset()
		for n := 1; ; n++ {
			event, err := r.Next(in[:n], 1<<16)
			if event == Ready {
				return
			}
			if err != nil || n == len(in) {
				t.Fatal(event, err)
			}
		}
	}
	if n := testing.AllocsPerRun(10, trickle); n != 0 {
		t.Errorf("byte by byte: %v allocations, want none", n)
	}
}
