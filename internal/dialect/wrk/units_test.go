package wrk

import (
	"testing"
	"time"
)

// The expectations are computed by wrk 4.2.0's units.c, compiled.
func TestUnitsMatchWrk(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0.00us", 1: "1.00us", 849: "849.00us", 850: "0.85ms", 999.5: "1.00ms", 84999: "85.00ms", 850000: "850.00ms",
		999999: "1000.00ms",
		1e6:    "1.00s", 50999999: "51.00s", 51e6: "0.85m", 3600e6: "60.00m", 7200e6: "120.00m",
	} {
		if got := microseconds(n); got != want {
			t.Errorf("%v us: got %q, want %q", n, got, want)
		}
	}
	for n, want := range map[time.Duration]string{
		1: "1s", 30: "30s", 50: "50s", 51: "1m", 55: "1m", 60: "1m", 90: "2m", 100: "2m", 3060: "51m", 7200: "120m",
	} {
		if got := seconds(n * time.Second); got != want {
			t.Errorf("%d s: got %q, want %q", n, got, want)
		}
	}
	for n, want := range map[float64][2]string{
		0: {"0.00", "0.00"}, 870: {"870.00", "0.87k"}, 871: {"0.85K", "0.87k"}, 1023: {"1.00K", "1.02k"},
		1024 * 1024 * 0.85: {"0.85M", "0.89M"}, 3.42 * (1 << 30): {"3.42G", "3.67G"}, 1e15: {"909.49T", "1000.00T"},
		1e18: {"909494.70T", "1000000.00T"},
	} {
		if got := [2]string{binary(n), metric(n)}; got != want {
			t.Errorf("%v: got %q, want %q", n, got, want)
		}
	}
}

func TestColumnsAlignNumbers(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"1.02ms", 8, "  1.02ms"},
		{"1.50s", 9, "   1.50s "},
		{"61.13k", 8, " 61.13k "},
		{"0.00", 10, "    0.00  "},
		{"1234567.00", 8, "123456  "}, // cut, as by the precision of wrk's %*.*s
	} {
		if got := column(c.text, c.width); got != c.want {
			t.Errorf("%q in %d: got %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestUnitsAreParsed(t *testing.T) {
	for text, want := range map[string]uint64{"10": 10, "10k": 10_000, "2M": 2_000_000, "1G": 1_000_000_000,
		"3 k": 3000, "0": 0} {
		if got, err := numberUnits().parse(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]uint64{"2": 2, "2s": 2, "2S": 2, "2m": 120, "2h": 7200} {
		if got, err := secondUnits().parse(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "-1", "1.5k", "1kk", "1x", "2ms", "99999999999999999999", "99999999999P"} {
		if got, err := numberUnits().parse(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
	if got, err := secondUnits().parse("1d"); err == nil {
		t.Errorf("1d: got %d, want an error", got)
	}
}
