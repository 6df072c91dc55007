package textbar

import "testing"

func TestBarsHaveTheirLengths(t *testing.T) {
	for s, want := range map[string]string{
		Sparkline(nil, 5): "", Sparkline([]float64{0, 0}, 5): "▁▁", Sparkline([]float64{0, 7}, 5): "▁█",
		Sparkline([]float64{7, 7, 0, 0, 7, 0}, 3): "█▁▅", Bar(0, 4): "", Bar(1, 4): "████", Bar(0.53125, 4): "██▏",
	} {
		if s != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
}
