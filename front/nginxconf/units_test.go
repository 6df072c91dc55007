package nginxconf

import "testing"

func TestFlagsAreParsed(t *testing.T) {
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

func TestRangesBecomePrefixes(t *testing.T) {
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
