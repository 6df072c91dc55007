package page

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestSharesDependOnTheCount(t *testing.T) {
	testkit.Equal(t, Shares(1000), []float64{0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9975, 0.999})
	testkit.Equal(t, Shares(1), []float64{0.5, 0.75, 0.9})
	for n, last := range map[int64]float64{0: 1, 1: 1, 100: 2, 1 << 60: 7} {
		shares := CurveShares(n, 40)
		if !slices.IsSorted(shares) || shares[0] != 0 || math.Abs(Nines(shares[len(shares)-1])-last) > 0.03 {
			t.Errorf("of %d: from %v to %v, want %v nines", n, shares[0], shares[len(shares)-1], last)
		}
	}
	var labels []string
	for _, tick := range NinesTicks(Axis{Max: 3}, Number) {
		labels = append(labels, tick.Label)
	}
	testkit.Equal(t, strings.Join(labels, " "), "0.5 0.9 0.99 0.999")
}

func TestPlotHasLegend(t *testing.T) {
	x, y := Axis{Max: 10, From: 40, To: 200}, Axis{Max: 10, From: 180, To: 10}
	p := NewPlot(300, 200, x, y, nil, nil, "")
	for _, text := range []string{"first", "<second>"} {
		p.Series("line-0", text, Path([]string{Place(x.At(0), y.At(0)), Place(x.At(1), y.At(1))}))
	}
	got := string(p.HTML())
	for _, want := range []string{`d="M40 180L56 163`, `</svg>&lt;second&gt;</span>`, `<title>first</title>`} {
		testkit.Contains(t, got, want)
	}
}
