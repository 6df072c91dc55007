package front_test

import (
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// Patterns of a program may have lookahead, and are limited. Other cases are in the corpus, beside
// nginx.
func TestReferersOfAProgram(t *testing.T) {
	want := []conf.Step{conf.Return{Status: 200, Text: "[$invalid_referer]"}}
	config := func(r *conf.Referers) conf.Config {
		return conf.Config{Hosts: []conf.Host{{Locations: []conf.Location{{Path: "/", Steps: want,
			Settings: &conf.Settings{Referers: r},
			Pos:      "nginx.conf:7"}}}}}
	}
	h := newFront(t, config(&conf.Referers{Names: []string{"A.test/x", `~^b\.(?=test)`},
		Patterns: []string{`^c\.test/(?<unknown>.)`, `^(?=(a+)+$)`}}))
	for referer, want := range map[string]string{
		"http://a.test/xy": "[]", "http://a.test/y": "[1]", "http://b.test/": "[]", "http://b.other/": "[1]",
		"http://c.test/z": "[]", "": "[1]",
	} {
		if got := get(t, h, "/", "Referer", referer); got.body != want {
			t.Errorf("%q: %s, want %s", referer, got.body, want)
		}
	}
	if got := get(t, h, "/", "Referer", "http://"+strings.Repeat("a", 40)+"!"); got.status != 500 {
		t.Errorf("a pattern that takes too long: %d", got.status)
	}
	if got := get(t, newFront(t, config(nil)), "/", "Referer", "http://a.test/"); got.body != "[]" {
		t.Errorf("without Referers: %s", got.body)
	}
}
