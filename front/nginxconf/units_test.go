package nginxconf

import (
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "30": 30 * time.Second, "30s": 30 * time.Second, "500ms": 500 * time.Millisecond, "1m": time.Minute,
		"1h": time.Hour, "1d": day, "1w": 7 * day,
		"1h30m": 90 * time.Minute, "1h 30m": 90 * time.Minute, "1h30": time.Hour + 30*time.Second,
		"1w2d3h4m5s6ms": 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second + 6*time.Millisecond,
	} {
		if got, err := parseTime(text, false); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]time.Duration{"1y": 365 * day, "1M": 30 * day, "1y1M1w": 402 * day,
		"90": 90 * time.Second} {
		if got, err := parseTime(text, true); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "h", "1x", "-1", "+1", "1.5h", "1m1h", "1h1h", "1hm", "1s30", "1 1", "1y",
		"1M", "99999999999999999999", "9999999999999999w"} {
		if got, err := parseTime(text, false); err == nil {
			t.Errorf("%q is %v; want an error", text, got)
		}
	}
	for _, text := range []string{"", "1ms", "400y", "1m1M"} {
		if got, err := parseTime(text, true); err == nil {
			t.Errorf("%q is %v; want an error", text, got)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "512": 512, "8k": 8 << 10, "8K": 8 << 10, "1m": 1 << 20,
		"1M": 1 << 20, "1g": 1 << 30, "1G": 1 << 30} {
		if got, err := parseSize(text, true); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "1t", "-1", "1.5k", "1kk", "9223372036854775808", "9007199254740992k"} {
		if got, err := parseSize(text, true); err == nil {
			t.Errorf("%q is %d; want an error", text, got)
		}
	}
	if got, err := parseSize("1g", false); err == nil {
		t.Errorf("1g is %d without giga; want an error", got)
	}
}

func TestFlags(t *testing.T) {
	for text, want := range map[string]bool{"on": true, "ON": true, "off": false, "Off": false} {
		if got, err := parseFlag(text); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yes", "1", "onn"} {
		if _, err := parseFlag(text); err == nil {
			t.Errorf("%q: want an error", text)
		}
	}
}

func TestPercentages(t *testing.T) {
	for text, want := range map[string]int{"1%": 100, "0.5%": 50, "0.05%": 5, "100%": 100_00, "33.33%": 33_33} {
		if got, err := parsePercent(text); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "5", "0%", "1.%", ".5%", "1.555%", "-1%", "1.x%"} {
		if got, err := parsePercent(text); err == nil {
			t.Errorf("%q is %d; want an error", text, got)
		}
	}
}

func TestRanges(t *testing.T) {
	for text, want := range map[string][]string{
		"10.0.0.0-10.0.0.255":     {"10.0.0.0/24"},
		"10.0.0.1-10.0.0.4":       {"10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/32"},
		"10.0.0.7-10.0.0.7":       {"10.0.0.7/32"},
		"0.0.0.0-255.255.255.255": {"0.0.0.0/0"},
		"::-::1":                  {"::/127"},
	} {
		got, err := parseRange(text)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s is %v, %v; want %v", text, got, err, want)
		}
		for i := range want {
			if got[i].String() != want[i] {
				t.Errorf("%s is %v; want %v", text, got, want)
			}
		}
	}
	for _, text := range []string{"", "10.0.0.1", "10.0.0.2-10.0.0.1", "10.0.0.1-::1", "a-b"} {
		if got, err := parseRange(text); err == nil {
			t.Errorf("%q is %v; want an error", text, got)
		}
	}
}
