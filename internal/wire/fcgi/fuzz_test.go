package fcgi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// fuzzMax limits the run of one input at every split to a few milliseconds.
const fuzzMax = 600

func addVectors(f *testing.F, vectors ...[]vector) {
	for _, group := range vectors {
		for _, v := range group {
			if len(v.in) <= fuzzMax {
				f.Add([]byte(v.in))
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	addVectors(f, readerVectors, requestVectors)
	for _, e := range specExamples {
		f.Add([]byte(strings.Join(e.sent, "")))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > fuzzMax {
			return
		}
		got := testkit.EverySplit(t, in, readRecords(t, false))
		if past := testkit.EverySplit(t, in, readRecords(t, true)); past != got {
			t.Errorf("%q\nread %s\npast %s", in, got, past)
		}
	})
}

func FuzzRequest(f *testing.F) {
	for _, v := range requestVectors {
		f.Add([]byte(v.in), uint16(100))
	}
	for _, e := range specExamples {
		f.Add([]byte(strings.Join(e.received, "")), uint16(60))
	}
	captures, err := filepath.Glob("testdata/*.fcgi")
	if err != nil || len(captures) == 0 {
		f.Fatal(captures, err)
	}
	for _, file := range captures {
		in, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(in, uint16(len(in)))
	}
	f.Fuzz(func(t *testing.T, in []byte, limit uint16) {
		if len(in) > fuzzMax || limit == 0 {
			return
		}
		got := testkit.EverySplit(t, in, readRequests(t, int(limit), false))
		if dropped := testkit.EverySplit(t, in, readRequests(t, int(limit), true)); dropped != got {
			t.Errorf("%q, limit %d\n   kept: %s\ndropped: %s", in, limit, got, dropped)
		}
		if _, err := compareNetHTTP(t, in); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	})
}

func FuzzPairs(f *testing.F) {
	addVectors(f, pairVectors)
	f.Fuzz(func(t *testing.T, list []byte) {
		if err := checkPairs(list); err != nil {
			t.Errorf("%q: %v", list, err)
		}
	})
}
