package hostname

import (
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestHostNameIsNormalized(t *testing.T) {
	for in, want := range map[string]string{ // "!": invalid
		"": "", "a.example": "a.example", "A.Example:80": "a.example", "a.example.": "a.example",
		"a.example.:80": "a.example", "a:": "a", "[::1]:80": "[::1]", "[::1]": "[::1]", "[::1": "!",
		"[::1]x": "!", "a:b": "!",
		"a:1:2": "!", "::1": "!", "a..b": "!", "a b": "!", "a/b": "!", "a\x7f": "!", "a,b": "!", "u@a": "!",
		"a#b": "!", "1.2.3.4:5": "1.2.3.4", "ä": "ä", ".a": ".a",
	} {
		got, ok := Parse(in)
		if !ok {
			got = "!"
		}
		testkit.Equal(t, got, want, in)
	}
}
