package cache_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
)

// CDN-Cache-Control replaces Cache-Control and Expires, unless it is empty. It is read as strictly.
func TestTargetedControl(t *testing.T) {
	const expires = "Expires: Thu, 01 Jan 2099 00:00:00 GMT"
	for _, test := range []struct {
		name   string
		fields []string
		kept   bool
	}{
		{"fresh", []string{"CDN-Cache-Control: max-age=60", "Cache-Control: no-store"}, true},
		{"private for others", []string{"CDN-Cache-Control: max-age=60", "Cache-Control: private, max-age=0"}, true},
		{"s-maxage", []string{"CDN-Cache-Control: max-age=0, s-maxage=60"}, true},
		{"two lines", []string{"CDN-Cache-Control: a", "CDN-Cache-Control: max-age=60"}, true},
		{"no-store", []string{"CDN-Cache-Control: no-store", fresh, expires}, false},
		{"no-cache", []string{"CDN-Cache-Control: no-cache", fresh, expires}, false},
		{"private", []string{"CDN-Cache-Control: private", fresh, expires}, false},
		{"private fields", []string{`CDN-Cache-Control: private="x", max-age=60`, fresh}, false},
		{"zero", []string{"CDN-Cache-Control: max-age=0", fresh, expires}, false},
		{"nothing of freshness", []string{"CDN-Cache-Control: foo", expires}, false},
		{"below zero", []string{"CDN-Cache-Control: max-age=-60", fresh}, false},
		{"malformed string", []string{`CDN-Cache-Control: max-age=60, a="x`, fresh}, false},
		{"empty", []string{"CDN-Cache-Control: ", fresh}, true},
		{"X-Accel-Expires counts more", []string{"CDN-Cache-Control: no-store", "X-Accel-Expires: 60"}, true},
	} {
		inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
			s.responds(200, "x", test.fields...)
			s.get()
			synctest.Wait()
			if kept := s.get().state == cache.StateHit; kept != test.kept {
				t.Errorf("%s: %q: kept %v, want %v", test.name, test.fields, kept, test.kept)
			}
		})
	}
	inBubble(t, conf.CachePolicy{Ignore: []string{"Cache-Control"}, Valid: []conf.CacheValid{{For: time.Minute}}},
		func(t *testing.T, s *site) {
			s.responds(200, "x", "CDN-Cache-Control: no-store")
			s.get().want(t, cache.StateMiss, 200, "x")
			s.get().want(t, cache.StateHit, 200, "x")
		})
}

// A stored response has the Date of the origin, or that of its arrival.
func TestStoredResponseHasDate(t *testing.T) {
	inBubble(t, conf.CachePolicy{Revalidate: true}, func(t *testing.T, s *site) {
		const date = "Sat, 01 Jan 2000 00:00:00 GMT" // synctest's clock begins at that time
		s.responds(200, "x", "Cache-Control: max-age=60", `Etag: "v1"`)
		for range 3 {
			got := s.get()
			if got.header.Get("Date") != date {
				t.Errorf("%s: Date %q, want %q", got.state, got.header.Get("Date"), date)
			}
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Minute)
		later := time.Now().UTC().Format(http.TimeFormat)
		s.responds(304, "", "Date: "+later, fresh)
		if got := s.get(); got.header.Get("Date") != later {
			t.Errorf("Date %q after a 304 of %q", got.header.Get("Date"), later)
		}
	})
}
