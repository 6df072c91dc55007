package front_test

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// Early hints are forwarded to the waiting client, and not stored. The Date of a stored response is
// its own.
func TestEarlyHintsAreNotStored(t *testing.T) {
	const date = "Sat, 01 Jan 2000 00:00:00 GMT"
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(103)
		w.Header().Del("Link")
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("Date", date)
		_, _ = io.WriteString(w, "body")
	})
	a := serveHandler(t, newFront(t, cached(to, conf.ProxyCache{Policy: conf.CachePolicy{Lock: true}},
		conf.Cache{Name: "one"})))
	for _, test := range []struct {
		state string
		hints []string
	}{{"MISS", []string{"103 </a.css>; rel=preload"}}, {"HIT", nil}} {
		var hints []string
		r, err := http.NewRequestWithContext(hinted(t, &hints), "GET", "http://x/", nil)
		must(t, err)
		resp, err := a.client.Do(r)
		must(t, err)
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if h := resp.Header; string(b) != "body" || err != nil || h.Get("X-Cache") != test.state ||
			!slices.Equal(hints, test.hints) || h["Link"] != nil || h.Get("Date") != date {
			t.Errorf("%s: %q %v %v %v", test.state, b, err, hints, h)
		}
	}
}
