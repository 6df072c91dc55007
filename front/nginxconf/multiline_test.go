package nginxconf

import (
	"net/http/httptest"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/testkit"
)

// The lines of a field value are joined, also in a map.
func TestLinesOfFieldValueAreJoined(t *testing.T) {
	text := inHTTP(`map $uri $m { default "a 'self';
		b x;
	"; }
	server { add_header A "default-src 'self';` + "\r\n" + `    script-src $scheme;
	"; add_header M $m; location / { proxy_set_header A "a
 b"; return 200 x; } }`)
	r, err := Parse("nginx.conf", Options{FS: oneFile(text), Prefix: "/srv", DefaultPort: 80})
	testkit.Must(t, err)
	h, err := front.New(r.Config)
	testkit.Must(t, err)
	defer func() { _ = h.Close() }()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://x/", nil))
	if a, m := w.Header().Get("A"), w.Header().Get("M"); a != "default-src 'self'; script-src http;" ||
		m != "a 'self';\t\tb x;" {
		t.Errorf("%q %q", a, m)
	}
	notes := 0
	for _, m := range r.Notes {
		if m.Directive == "add_header" || m.Directive == "proxy_set_header" {
			notes++
		}
	}
	if notes != 1 {
		t.Errorf("%d notes: %v", notes, r.Notes)
	}
}
