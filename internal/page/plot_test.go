package page

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestSharesDependOnTheCount(t *testing.T) {
	if got := Shares(1000); !slices.Equal(got, []float64{0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9975, 0.999}) {
		t.Errorf("of 1000: %v", got)
	}
	if got := Shares(1); !slices.Equal(got, []float64{0.5, 0.75, 0.9}) {
		t.Errorf("of one: %v", got)
	}
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
	if got := strings.Join(labels, " "); got != "0.5 0.9 0.99 0.999" {
		t.Errorf("ticks %s", got)
	}
}

// Names are placed as near to their lines' ends as the others allow.
func TestSpreadMovesNamesLittle(t *testing.T) {
	for _, test := range []struct{ places, want []float64 }{
		{nil, []float64{}},
		{[]float64{10, 50, 90}, []float64{10, 50, 90}},
		{[]float64{50, 50}, []float64{45, 55}},
		{[]float64{20, 48, 50, 52}, []float64{20, 40, 50, 60}},
		{[]float64{0, 0, 0}, []float64{0, 10, 20}},        // there is no room above
		{[]float64{99, 100, 100}, []float64{80, 90, 100}}, // nor below
		{[]float64{10, 18, 26}, []float64{8, 18, 28}},
	} {
		if got := spread(test.places, 10, 0, 100); !slices.Equal(got, test.want) {
			t.Errorf("%v: got %v, want %v", test.places, got, test.want)
		}
	}
}

// A plot has names beside its lines, without overlap, or a legend.
func TestPlotHasNamesOrLegend(t *testing.T) {
	x, y := Axis{Max: 10}, Axis{Max: 10}
	p := NewPlot(Frame{Width: 300, Height: 200, Left: 40, Right: 200, Top: 10, Bottom: 180}, &x, &y)
	for _, text := range []string{"first", "second", "<third>"} {
		l := Line{Class: "line-0", Text: text}
		for v := range 11 {
			l.Spots = append(l.Spots, Spot{X: x.At(float64(v)), Y: y.At(float64(v)), Title: text + " here"})
		}
		l.Path = Path([]string{Place(l.Spots[0].X, l.Spots[0].Y), Place(l.Spots[1].X, l.Spots[1].Y)})
		p.Lines = append(p.Lines, l)
	}
	draw := func() string { return string(p.HTML()) }
	if got := draw(); !strings.Contains(got, `</svg>&lt;third&gt;</span>`) || strings.Contains(got, `class="name"`) {
		t.Errorf("no legend: %s", got)
	}
	p.NameLines()
	got := draw()
	for _, want := range []string{
		`d="M40 180L56 163`, `<text class="name" x="218" y="14.5" text-anchor="start">first`, `y="30.5" text-anchor="start">second`,
		`y="46.5" text-anchor="start">&lt;third&gt;`,
		`d="M200 10L200 10L214 26"`, `<title>second here</title><circle class="hit" cx="120" cy="95"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s: %s", want, got)
		}
	}
	if strings.Contains(got, "legend\"") {
		t.Error("a legend besides the names")
	}
}
