package page

import (
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestAxisHasRoundTicks(t *testing.T) {
	for _, test := range []struct {
		a    Axis
		want string
	}{
		{Axis{Min: 0, Max: 60}, "0 10 20 30 40 50 60"},
		{Axis{Min: 0, Max: 7}, "0 2 4 6"},
		{Axis{Min: 0.4, Max: 6, Log: true}, "0.5 1 2 5"},
		{Axis{Min: 0.09, Max: 21, Log: true}, "0.1 0.2 0.5 1 2 5 10 20"},
	} {
		test.a.From, test.a.To = 100, 500
		var labels []string
		at := 0.0
		for _, tick := range test.a.Ticks(Number) {
			labels = append(labels, tick.Label)
			if tick.At < at || tick.At < 100 || tick.At > 500 {
				t.Errorf("%+v: ticks go back, or out: %v", test.a, tick)
			}
			at = tick.At
		}
		testkit.Equal(t, strings.Join(labels, " "), test.want, test.a)
	}
}

// Values outside an axis are drawn at its end.
func TestValuesOutsideAnAxisAreClamped(t *testing.T) {
	for _, a := range []Axis{{Min: 1, Max: 2, From: 10, To: 20}, {Min: 1, Max: 2, From: 10, To: 20, Log: true}} {
		if a.At(0) != 10 || a.At(3) != 20 || a.At(1) != 10 {
			t.Errorf("%+v: %v %v %v", a, a.At(0), a.At(3), a.At(1))
		}
	}
}
