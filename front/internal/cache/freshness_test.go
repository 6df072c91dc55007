package cache_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/internal/testkit"
)

func TestFreshnessFollowsRFC9111(t *testing.T) {
	date := func(d time.Duration) string { // synctest's clock begins at that time
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	tests := []struct {
		what   string
		fields []string
		policy conf.CachePolicy
		fresh  time.Duration // 0 means not stored
	}{
		{"no directive", nil, conf.CachePolicy{}, 0},
		{"no directive, Valid", nil, conf.CachePolicy{Valid: []conf.CacheValid{{Statuses: []int{200},
			For: time.Minute}}},
			time.Minute},
		{"no directive, Valid for all", nil, conf.CachePolicy{Valid: []conf.CacheValid{{For: time.Minute}}},
			time.Minute},
		{"no directive, Valid for others", nil,
			conf.CachePolicy{Valid: []conf.CacheValid{{Statuses: []int{404}, For: time.Minute}}}, 0},
		{"the first Valid counts", nil, conf.CachePolicy{Valid: []conf.CacheValid{{Statuses: []int{200}},
			{For: time.Minute}}}, 0},
		{"Last-Modified is no freshness", []string{"Last-Modified: " + date(-time.Hour)}, conf.CachePolicy{}, 0},
		{"max-age", []string{"Cache-Control: max-age=60"}, conf.CachePolicy{}, time.Minute},
		{"max-age before Valid", []string{"Cache-Control: max-age=60"},
			conf.CachePolicy{Valid: []conf.CacheValid{{For: time.Hour}}}, time.Minute},
		{"case", []string{"cache-control: MAX-AGE=60"}, conf.CachePolicy{}, time.Minute},
		{"quoted", []string{`Cache-Control: max-age="60"`}, conf.CachePolicy{}, time.Minute},
		{"max-age is no number", []string{"Cache-Control: max-age=1e3"},
			conf.CachePolicy{Valid: []conf.CacheValid{{For: time.Hour}}}, 0},
		{"max-age is too large for a number", []string{"Cache-Control: max-age=99999999999999999999"},
			conf.CachePolicy{},
			1 << 31 * time.Second},
		{"two of max-age", []string{"Cache-Control: max-age=60, max-age=5"}, conf.CachePolicy{}, 5 * time.Second},
		{"in another's quotation", []string{`Cache-Control: x="max-age=60"`}, conf.CachePolicy{}, 0},
		{"s-maxage before max-age", []string{"Cache-Control: max-age=5, s-maxage=60"}, conf.CachePolicy{}, time.Minute},
		{"s-maxage=0", []string{"Cache-Control: max-age=5, s-maxage=0"}, conf.CachePolicy{}, 0},
		{"Age counts", []string{"Cache-Control: max-age=60", "Age: 20"}, conf.CachePolicy{}, 40 * time.Second},
		{"Age is too much", []string{"Cache-Control: max-age=60", "Age: 60"}, conf.CachePolicy{}, 0},
		{"Expires", []string{"Expires: " + date(time.Minute), "Date: " + date(0)}, conf.CachePolicy{}, time.Minute},
		{"Expires goes by Date", []string{"Expires: " + date(time.Hour+time.Minute), "Date: " + date(time.Hour)},
			conf.CachePolicy{}, time.Minute},
		{"Expires with two of Date", []string{"Expires: " + date(2*time.Minute), "Date: " + date(time.Minute),
			"Date: " + date(0)}, conf.CachePolicy{}, 2 * time.Minute},
		{"Expires without Date", []string{"Expires: " + date(time.Minute)}, conf.CachePolicy{}, time.Minute},
		{"Expires after max-age", []string{"Expires: " + date(time.Hour), "Cache-Control: max-age=60"},
			conf.CachePolicy{},
			time.Minute},
		{"Expires is over", []string{"Expires: " + date(-time.Second)},
			conf.CachePolicy{Valid: []conf.CacheValid{{For: time.Hour}}}, 0},
		{"Expires: 0", []string{"Expires: 0"}, conf.CachePolicy{Valid: []conf.CacheValid{{For: time.Hour}}}, 0},
		{"Expires in another zone", []string{"Expires: Thu, 01 Jan 2099 00:00:00 UTC"}, conf.CachePolicy{}, 0},
		{"Expires with a short day", []string{"Expires: Thu Jan 1 00:00:00 2099"}, conf.CachePolicy{}, 0},
		{"Expires twice", []string{"Expires: " + date(time.Hour), "Expires: 0"}, conf.CachePolicy{}, 0},
		{"X-Accel-Expires", []string{"X-Accel-Expires: 60", "Cache-Control: max-age=5", "Expires: 0"},
			conf.CachePolicy{},
			time.Minute},
		{"X-Accel-Expires: @", []string{"X-Accel-Expires: @946684860"}, conf.CachePolicy{}, time.Minute},
		{"X-Accel-Expires: 0", []string{"X-Accel-Expires: 0", "Cache-Control: max-age=5"}, conf.CachePolicy{}, 0},
		{"X-Accel-Expires before no-store", []string{"X-Accel-Expires: 60", "Cache-Control: no-store"},
			conf.CachePolicy{},
			time.Minute},
		{"no-store", []string{"Cache-Control: no-store, max-age=60"}, conf.CachePolicy{}, 0},
		{"no-store in another line", []string{"Cache-Control: max-age=60", "Cache-Control: no-store"}, conf.CachePolicy{}, 0},
		{"no-cache", []string{"Cache-Control: max-age=60, no-cache"}, conf.CachePolicy{}, 0},
		{"no-cache of fields", []string{`Cache-Control: max-age=60, no-cache="set-cookie, x"`}, conf.CachePolicy{}, 0},
		{"private", []string{"Cache-Control: max-age=60, PRIVATE"}, conf.CachePolicy{}, 0},
		{"private is no part of a word", []string{"Cache-Control: max-age=60, xprivate, privatex=1"},
			conf.CachePolicy{},
			time.Minute},
		{"a quotation that does not end", []string{`Cache-Control: max-age=60, x="no-store`}, conf.CachePolicy{}, 0},
		{"ignored Cache-Control", []string{"Cache-Control: private, max-age=5"},
			conf.CachePolicy{Ignore: []string{"Cache-Control"}, Valid: []conf.CacheValid{{For: time.Minute}}},
			time.Minute},
		{"ignored Expires", []string{"Expires: 0"},
			conf.CachePolicy{Ignore: []string{"Expires"}, Valid: []conf.CacheValid{{For: time.Minute}}}, time.Minute},
		{"ignored X-Accel-Expires", []string{"X-Accel-Expires: 0", "Cache-Control: max-age=60"},
			conf.CachePolicy{Ignore: []string{"X-Accel-Expires"}}, time.Minute},
		{"Set-Cookie", []string{"Cache-Control: max-age=60", "Set-Cookie: a=b"}, conf.CachePolicy{}, 0},
		{"ignored Set-Cookie", []string{"Cache-Control: max-age=60", "Set-Cookie: a=b"},
			conf.CachePolicy{Ignore: []string{"Set-Cookie"}}, time.Minute},
		{"Vary: *", []string{"Cache-Control: max-age=60", "Vary: Accept, *"}, conf.CachePolicy{}, 0},
		{"ignored Vary", []string{"Cache-Control: max-age=60", "Vary: *"}, conf.CachePolicy{Ignore: []string{"Vary"}},
			time.Minute},
		{"too many fields in Vary", []string{"Cache-Control: max-age=60", "Vary: " + strings.Repeat("a, ", 17)},
			conf.CachePolicy{}, 0},
		{"a header that is too long", []string{"Cache-Control: max-age=60", "X: " + strings.Repeat("x", 64<<10)},
			conf.CachePolicy{}, 0},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, conf.Cache{Inactive: 1 << 62}, test.policy)
				defer s.cache.Close()
				s.responds(200, "body", test.fields...)
				s.get().want(t, cache.StateMiss, 200, "body")
				if test.fresh == 0 {
					s.get().want(t, cache.StateMiss, 200, "body")
					return
				}
				s.get().want(t, cache.StateHit, 200, "body")
				if test.fresh > time.Hour {
					return
				}
				time.Sleep(test.fresh - time.Millisecond)
				s.get().want(t, cache.StateHit, 200, "body")
				time.Sleep(time.Millisecond)
				s.get().want(t, cache.StateExpired, 200, "body")
			})
		})
	}
}

func TestPartsAndNotModifiedAreNotStored(t *testing.T) {
	for _, status := range []int{206, 304, 416} {
		inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
			s.responds(status, "", "Cache-Control: max-age=60")
			for range 2 {
				s.get().want(t, cache.StateMiss, status, "")
			}
		})
	}
}

func TestResponseToAuthorizedRequestIsNotStored(t *testing.T) {
	for control, kept := range map[string]bool{
		"max-age=60": false, "max-age=60, public": true, "s-maxage=60": true, "max-age=60, must-revalidate": true,
		"max-age=60, proxy-revalidate": false, "max-age=60, public, private": false,
	} {
		inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
			s.responds(200, "secret", "Cache-Control: "+control)
			s.get("Authorization: Basic eA==").want(t, cache.StateMiss, 200, "secret")
			want := cache.StateMiss
			if kept {
				want = cache.StateHit
			}
			s.get().want(t, want, 200, "secret")
		})
	}
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.responds(200, "mine", "Cache-Control: max-age=60")
		q := cache.Query{KeyedByAuthorization: true}
		s.query(q, "GET", "http://a.example/x?credential", "Authorization: a").want(t, cache.StateMiss, 200, "mine")
		s.query(q, "GET", "http://a.example/x?credential", "Authorization: a").want(t, cache.StateHit, 200, "mine")
	})
}

func TestAgeCountsTimeAtOrigin(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.respondBy(func(*http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second) // time at the origin counts: RFC 9111, 4.2.3
			return response(200, "x", "Cache-Control: max-age=60", "Age: 10"), nil
		})
		testkit.Equal(t, s.get().header.Get("Age"), "12", "Age of a new response")
		time.Sleep(5 * time.Second)
		if g := s.get(); g.state != cache.StateHit || g.header.Get("Age") != "17" || len(g.header["Age"]) != 1 {
			t.Errorf("%s with Age %q, want 17", g.state, g.header["Age"])
		}
	})
}
