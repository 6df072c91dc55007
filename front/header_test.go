package front_test

import (
	"fmt"
	"testing"
)

// A client's data cannot end a field.
func TestAddHeaderCannotInject(t *testing.T) {
	us := serveConf(t, "", "add_header X-Uri $uri; add_header Content-Type text/x; location / { return 200 x; }")
	if got := us.get("/a%0d%0aX-Evil:%201"); got.header["X-Evil"] != nil ||
		got.header.Get("X-Uri") != "/a X-Evil: 1" || got.status != 200 {
		t.Errorf("%d, %q", got.status, got.header)
	}
	for path, want := range map[string]string{
		"/%0d%0aX-Evil:%201": "/ X-Evil: 1", "/a%0aX-Evil:1": "/a X-Evil:1", "/a%0d%0a": "/a",
		"/a%0d%0a%20b%0a%09c": "/a b\tc", "/a%01b%7f%0bc": "/a b  c",
	} {
		if got := us.get(path); got.header["X-Evil"] != nil || got.header.Get("X-Uri") != want || got.status != 200 {
			t.Errorf("%s: %d, %q", path, got.status, got.header)
		}
	}
	if got := us.get("/fine"); got.header.Get("X-Uri") != "/fine" ||
		fmt.Sprint(got.header["Content-Type"]) != "[text/x]" {
		t.Errorf("%q", got.header)
	}
}
