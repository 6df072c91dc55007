package files_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tarehq/tare/front/internal/files"
)

// BenchmarkFiles serves one file again and again, a thousand files in random order, and a path that
// leads nowhere; with the default encoded variants, none of which exists, and without.
func BenchmarkFiles(b *testing.B) {
	const count = 1000
	s := newSite(b)
	var requests []*http.Request
	for i := range count {
		s.write(fmt.Sprintf("d/%d.html", i), large(byte(i), 1024))
		requests = append(requests, httptest.NewRequest("GET", fmt.Sprintf("/d/%d.html", i), nil))
	}
	missing := []*http.Request{httptest.NewRequest("GET", "/missing.html", nil)}
	time.Sleep(200 * time.Millisecond) // files that have just changed are read again
	for name, c := range map[string]files.Config{
		"root": {}, "root, siblings": {Compress: files.Compress{Siblings: true}}, "by path": {ByPath: true},
	} {
		h := s.handler(c)
		for what, requests := range map[string][]*http.Request{
			"hot": requests[:1], "random": requests, "missing": missing,
		} {
			b.Run(name+"/"+what, func(b *testing.B) {
				var w sink
				b.ReportAllocs()
				for b.Loop() {
					w.serve(h, requests[rand.IntN(len(requests))])
				}
			})
		}
	}
}
