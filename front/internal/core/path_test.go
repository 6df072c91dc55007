package core

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestRequestPathIsDecodedOnce(t *testing.T) {
	for target, want := range map[string]string{
		"/a%2fb": "/a/b", "/a%252e": "/a%2e", "/%2e%2e/x": "", "/a%23b": "/a#b", "http://x.example": "/",
		"http://x.example/a?b": "/a", "/a?b/../c": "/a",
		"/a#b": "/a", "/a#/../b": "/a", "/a/%2e%2e/c#b": "/c", "/a?b#c": "/a", "/#": "/",
		"http://x.example/a#b": "/a", "/a/../..#b": "",
	} {
		u, err := url.ParseRequestURI(target)
		testkit.Must(t, err)
		x := &Exchange{Request: &http.Request{RequestURI: target, URL: u}, Host: &host{}, Args: u.RawQuery}
		if ok := x.findPath(); x.Path != want || ok != (want != "") || strings.Contains(x.Args, "#") {
			t.Errorf("%s: %q %q %v, want %q", target, x.Path, x.Args, ok, want)
		}
	}
}
