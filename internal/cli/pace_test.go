package cli

import (
	"reflect"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
)

func TestPaceIsParsed(t *testing.T) {
	for text, want := range map[string][]load.Step{
		"1000":      {{From: 1000, To: 1000}},
		"2.5k":      {{From: 2500, To: 2500}},
		"0:1000/1m": {{From: 0, To: 1000, For: time.Minute}},
		"500/10s,0/1s,1k:1/2s": {{From: 500, To: 500, For: 10 * time.Second}, {For: time.Second},
			{From: 1000, To: 1, For: 2 * time.Second}},
	} {
		if got, err := parsePace(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "NaN", "1:2", "1,2", "1/", "1/0s", "1/-1s", "1/x", ":", "1/1s,"} {
		if got, err := parsePace(text); err == nil {
			t.Errorf("%q: no error, %v", text, got)
		}
	}
}
