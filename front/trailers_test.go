package front_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// Trailer fields follow bodies of any length, by the rules of add_header.
func TestAddTrailerFollowsBodies(t *testing.T) {
	s := conf.Settings{Trailers: []conf.AddHeader{
		{Name: "X-Bytes", Value: "$body_bytes_sent"}, {Name: "X-Always", Value: "$status", Always: true},
		{Name: "X-Empty", Value: "$arg_none"},
	}}
	a := frontOf(t, s, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/404" {
			w.WriteHeader(404)
		}
		body := strings.Repeat("x", len(r.URL.RawQuery)*1000)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		io.WriteString(w, body)
	})
	for path, want := range map[string]string{
		"/":              "map[X-Always:[200] X-Bytes:[0]]",
		"/?1":            "map[X-Always:[200] X-Bytes:[1000]]",
		"/?123456789012": "map[X-Always:[200] X-Bytes:[12000]]",
		"/404?1":         "map[X-Always:[404]]",
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := fmt.Sprint(a.do(method, path, nil).trailer)
			if method == "GET" && got != want || method == "HEAD" && got != "map[]" {
				t.Errorf("%s %s: %s, want %s", method, path, got, want)
			}
		}
	}
}
