package front_test

import (
	"fmt"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// A client's data cannot end a field.
func TestAddHeaderCannotInject(t *testing.T) {
	us := serveHandler(t, newFront(t, oneHost(conf.Location{
		Path:  "/",
		Steps: []conf.Step{conf.Return{Status: 200, Text: "x"}},
		Settings: &conf.Settings{Header: []conf.AddHeader{{Name: "X-Uri", Value: "$uri"},
			{Name: "Content-Type", Value: "text/x"}}},
	})))
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
