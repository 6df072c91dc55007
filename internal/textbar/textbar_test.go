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

func TestTextBreaksAtWords(t *testing.T) {
	for _, test := range []struct {
		text, indent, want string
	}{
		{"", "", ""}, {"one two", "", "one two"}, {"one two three", "", "one two\nthree"},
		{"a longest word", "> ", "a\n> longest\n> word"}, {"äöü äöü ä  b", "", "äöü äöü\nä  b"},
	} {
		if got := Wrap(test.text, 7, test.indent); got != test.want {
			t.Errorf("%q: got %q, want %q", test.text, got, test.want)
		}
	}
}
