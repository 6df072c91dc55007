package cache_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
)

// A HEAD that is not converted has its own response, with the length of a body that it does not
// have. No GET receives it.
func TestHeadHasItsOwnResponse(t *testing.T) {
	const url = "http://a.example/x"
	for _, dir := range []string{"", t.TempDir()} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, conf.Cache{Name: "test", Dir: dir}, conf.CachePolicy{KeepHead: true, Lock: true})
			defer s.cache.Close()
			s.respondBy(func(r *http.Request) (*http.Response, error) {
				resp := response(200, "12345", fresh, "Content-Length: 5", `Etag: "v1"`)
				if r.Method == http.MethodHead {
					resp.Body = http.NoBody
				}
				return resp, nil
			})
			for _, state := range []cache.State{cache.StateMiss, cache.StateHit} {
				got := s.request("HEAD", url)
				got.want(t, state, 200, "")
				if n := got.header.Get("Content-Length"); n != "5" {
					t.Errorf("%s: Content-Length %q, want 5", state, n)
				}
				synctest.Wait()
			}
			s.request("HEAD", url, `If-None-Match: "v1"`).want(t, cache.StateHit, 304, "")
			got := s.request("HEAD", url, `If-None-Match: "v2"`)
			if got.want(t, cache.StateHit, 200, ""); got.header.Get("Content-Length") != "5" {
				t.Errorf("Content-Length %q, want 5", got.header.Get("Content-Length"))
			}
			s.get().want(t, cache.StateMiss, 200, "12345")
			synctest.Wait()
			s.get().want(t, cache.StateHit, 200, "12345")
			if n := s.cache.Purge(url); n != 2 {
				t.Errorf("%d responses were purged, want 2", n)
			}
			s.request("HEAD", url).want(t, cache.StateMiss, 200, "")
			synctest.Wait()
			s.get().want(t, cache.StateMiss, 200, "12345")
			synctest.Wait()
			// from the response to GET, as in nginx
			s.request("HEAD", url).want(t, cache.StateHit, 200, "")
		})
	}
}
