package cache_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/internal/testkit"
)

func TestFreshnessFollowsRFC9111(t *testing.T) {
	date := func(d time.Duration) string { // synctest's clock begins at that time
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	none, valid := conf.CachePolicy{}, func(rules ...conf.CacheValid) conf.CachePolicy {
		return conf.CachePolicy{Valid: rules}
	}
	const forAll = fresh + "|Expires: Thu, 01 Jan 2099 00:00:00 GMT"
	minute, hour := valid(conf.CacheValid{For: time.Minute}), valid(conf.CacheValid{For: time.Hour})
	tests := []struct {
		what, header string // with a | between fields
		policy       conf.CachePolicy
		fresh        time.Duration // 0 means not stored
	}{
		{"no directive", "", none, 0},
		{"no directive, Valid", "", valid(conf.CacheValid{Statuses: []int{200}, For: time.Minute}), time.Minute},
		{"no directive, Valid for all", "", minute, time.Minute},
		{"no directive, Valid for others", "", valid(conf.CacheValid{Statuses: []int{404}, For: time.Minute}), 0},
		{"the first Valid counts", "",
			valid(conf.CacheValid{Statuses: []int{200}}, conf.CacheValid{For: time.Minute}), 0},
		{"Last-Modified is no freshness", "Last-Modified: " + date(-time.Hour), none, 0},
		{"max-age", "Cache-Control: max-age=60", none, time.Minute},
		{"max-age before Valid", "Cache-Control: max-age=60", hour, time.Minute},
		{"case", "cache-control: MAX-AGE=60", none, time.Minute},
		{"quoted", `Cache-Control: max-age="60"`, none, time.Minute},
		{"max-age is no number", "Cache-Control: max-age=1e3", hour, 0},
		{"max-age is too large for a number", "Cache-Control: max-age=99999999999999999999",
			none, 1 << 31 * time.Second},
		{"two of max-age", "Cache-Control: max-age=60, max-age=5", none, 5 * time.Second},
		{"in another's quotation", `Cache-Control: x="max-age=60"`, none, 0},
		{"s-maxage before max-age", "Cache-Control: max-age=5, s-maxage=60", none, time.Minute},
		{"s-maxage=0", "Cache-Control: max-age=5, s-maxage=0", none, 0},
		{"Age counts", "Cache-Control: max-age=60|Age: 20", none, 40 * time.Second},
		{"Age is too much", "Cache-Control: max-age=60|Age: 60", none, 0},
		{"Expires", "Expires: " + date(time.Minute) + "|Date: " + date(0), none, time.Minute},
		{"Expires goes by Date", "Expires: " + date(time.Hour+time.Minute) + "|Date: " + date(time.Hour),
			none, time.Minute},
		{"Expires with two of Date", "Expires: " + date(2*time.Minute) + "|Date: " + date(time.Minute) + "|Date: " +
			date(0), none, 2 * time.Minute},
		{"Expires without Date", "Expires: " + date(time.Minute), none, time.Minute},
		{"Expires after max-age", "Expires: " + date(time.Hour) + "|Cache-Control: max-age=60", none, time.Minute},
		{"Expires is over", "Expires: " + date(-time.Second), hour, 0},
		{"Expires: 0", "Expires: 0", hour, 0},
		{"Expires in another zone", "Expires: Thu, 01 Jan 2099 00:00:00 UTC", none, 0},
		{"Expires with a short day", "Expires: Thu Jan 1 00:00:00 2099", none, 0},
		{"Expires twice", "Expires: " + date(time.Hour) + "|Expires: 0", none, 0},
		{"X-Accel-Expires", "X-Accel-Expires: 60|Cache-Control: max-age=5|Expires: 0", none, time.Minute},
		{"X-Accel-Expires: @", "X-Accel-Expires: @946684860", none, time.Minute},
		{"X-Accel-Expires: 0", "X-Accel-Expires: 0|Cache-Control: max-age=5", none, 0},
		{"X-Accel-Expires before no-store", "X-Accel-Expires: 60|Cache-Control: no-store", none, time.Minute},
		{"no-store", "Cache-Control: no-store, max-age=60", none, 0},
		{"no-store in another line", "Cache-Control: max-age=60|Cache-Control: no-store", none, 0},
		{"no-cache", "Cache-Control: max-age=60, no-cache", none, 0},
		{"no-cache of fields", `Cache-Control: max-age=60, no-cache="set-cookie, x"`, none, 0},
		{"private", "Cache-Control: max-age=60, PRIVATE", none, 0},
		{"private is no part of a word", "Cache-Control: max-age=60, xprivate, privatex=1", none, time.Minute},
		{"a quotation that does not end", `Cache-Control: max-age=60, x="no-store`, none, 0},
		{"ignored Cache-Control", "Cache-Control: private, max-age=5",
			conf.CachePolicy{Ignore: []string{"Cache-Control"}, Valid: minute.Valid}, time.Minute},
		{"ignored Expires", "Expires: 0",
			conf.CachePolicy{Ignore: []string{"Expires"}, Valid: minute.Valid}, time.Minute},
		{"ignored X-Accel-Expires", "X-Accel-Expires: 0|Cache-Control: max-age=60",
			conf.CachePolicy{Ignore: []string{"X-Accel-Expires"}}, time.Minute},
		{"Set-Cookie", "Cache-Control: max-age=60|Set-Cookie: a=b", none, 0},
		{"ignored Set-Cookie", "Cache-Control: max-age=60|Set-Cookie: a=b",
			conf.CachePolicy{Ignore: []string{"Set-Cookie"}}, time.Minute},
		{"Vary: *", "Cache-Control: max-age=60|Vary: Accept, *", none, 0},
		{"ignored Vary", "Cache-Control: max-age=60|Vary: *",
			conf.CachePolicy{Ignore: []string{"Vary"}}, time.Minute},
		{"too many fields in Vary", "Cache-Control: max-age=60|Vary: " + strings.Repeat("a, ", 17), none, 0},
		{"a header that is too long", "Cache-Control: max-age=60|X: " + strings.Repeat("x", 64<<10), none, 0},
		// CDN-Cache-Control replaces Cache-Control and Expires, unless it is empty or malformed
		{"targeted", "CDN-Cache-Control: max-age=60|Cache-Control: no-store", none, time.Minute},
		{"private for others", "CDN-Cache-Control: max-age=60|Cache-Control: private, max-age=0", none, time.Minute},
		{"targeted s-maxage", "CDN-Cache-Control: max-age=0, s-maxage=60", none, time.Minute},
		{"two targeted lines", "CDN-Cache-Control: a|CDN-Cache-Control: max-age=60", none, time.Minute},
		{"targeted no-store", "CDN-Cache-Control: no-store|" + forAll, none, 0},
		{"targeted no-cache", "CDN-Cache-Control: no-cache|" + forAll, none, 0},
		{"targeted private", "CDN-Cache-Control: private|" + forAll, none, 0},
		{"targeted private fields", `CDN-Cache-Control: private="x", max-age=60|` + forAll, none, 0},
		{"targeted zero", "CDN-Cache-Control: max-age=0|" + forAll, none, 0},
		{"targeted, nothing of freshness", "CDN-Cache-Control: foo|" + forAll, none, 0},
		{"targeted below zero", "CDN-Cache-Control: max-age=-60|" + forAll, none, 0},
		{"targeted, not set", "CDN-Cache-Control: no-store=?0, max-age=60", none, time.Minute},
		{"targeted time in quotes", `CDN-Cache-Control: max-age="60"|` + forAll, none, 0},
		{"targeted list", "CDN-Cache-Control: max-age=(60)|" + forAll, none, 0},
		{"targeted malformed string", `CDN-Cache-Control: no-store, a="x|` + fresh, none, 10 * time.Minute},
		{"targeted malformed member", "CDN-Cache-Control: max-age=60, &|Cache-Control: no-store", none, 0},
		{"targeted empty", "CDN-Cache-Control: |" + fresh, none, 10 * time.Minute},
		{"X-Accel-Expires before targeted", "CDN-Cache-Control: no-store|X-Accel-Expires: 60", none, time.Minute},
		{"ignored Cache-Control and targeted", "CDN-Cache-Control: no-store",
			conf.CachePolicy{Ignore: []string{"Cache-Control"}, Valid: minute.Valid}, time.Minute},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			inCache(t, conf.Cache{Inactive: 1 << 62}, test.policy, func(t *testing.T, s *site) {
				s.responds(200, "body", strings.FieldsFunc(test.header, func(r rune) bool { return r == '|' })...)
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
		testkit.Equal(t, s.get().header["Age"], []string{"17"}, "Age of a stored response")
	})
}
