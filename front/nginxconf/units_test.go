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
