package front

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
		x := &exchange{r: &http.Request{RequestURI: target, URL: u}, host: &host{}, args: u.RawQuery}
		if ok := x.findPath(); x.path != want || ok != (want != "") || strings.Contains(x.args, "#") {
			t.Errorf("%s: %q %q %v, want %q", target, x.path, x.args, ok, want)
		}
	}
}
