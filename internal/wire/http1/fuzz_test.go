package http1

import (
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// fuzzMax limits the run of one input at every split to about a millisecond.
const fuzzMax = 600

func fuzz(f *testing.F, vectors []vector, parse func([][]byte) string, compare func([]byte) error) {
	for _, v := range vectors {
		f.Add([]byte(v.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > fuzzMax {
			return
		}
		testkit.EverySplit(t, in, parse)
		if compare == nil {
			return
		}
		if err := compare(in); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	})
}

func FuzzRequest(f *testing.F)  { fuzz(f, requestVectors, parseRequest, compareRequest) }
func FuzzResponse(f *testing.F) { fuzz(f, responseVectors, parseResponse, compareResponse) }
func FuzzTrailer(f *testing.F)  { fuzz(f, trailerVectors, parseTrailer, nil) }
func FuzzChunked(f *testing.F)  { fuzz(f, chunkedVectors, decode, compareChunked) }
