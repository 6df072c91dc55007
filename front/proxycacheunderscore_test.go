package front_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// Upstreams may confuse X_Lang with X-Lang. If such names are forwarded, a Vary for X-Lang covers
// both, and a response is not stored if the key lacks a field.
func TestUnderscoresCannotPoisonCache(t *testing.T) {
	to, _ := numbered(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/vary") {
			w.Header().Set("Vary", "X-Lang")
		}
	})
	c := cached(to, conf.ProxyCache{Key: "$uri$http_x_lang$http_user_agent"}, conf.Cache{Name: "one"})
	c.Hosts[0].UnderscoreFields = true
	c.Hosts[0].Locations = append(c.Hosts[0].Locations,
		conf.Location{Path: "/vary", Settings: c.Hosts[0].Locations[0].Settings,
			Proxy: &conf.Proxy{To: conf.Text(to), Cache: &conf.ProxyCache{Zone: "one", Key: "$uri"}}})
	a := serveHandler(t, newFront(t, c))
	for _, test := range []struct {
		path, state string
		fields      []string
	}{
		{"/vary/1", "MISS", []string{"X_Lang", "other"}}, {"/vary/1", "MISS", nil}, {"/vary/1", "HIT", nil},
		{"/vary/2", "MISS", []string{"X_Lang", "b", "X-Lang", "a"}}, {"/vary/2", "MISS", []string{"X-Lang", "a,b"}},
		{"/vary/2", "MISS", []string{"X-Lang", "a"}},
		{"/vary/3", "MISS", []string{"X_Lang", "a"}}, {"/vary/3", "HIT", []string{"X_Lang", "a"}},
		{"/vary/3", "MISS", []string{"X-Lang", "a"}},
		{"/key/1", "MISS", []string{"X_Lang", "b", "X-Lang", "a"}}, {"/key/1", "MISS", []string{"X-Lang", "a"}},
		{"/key/1", "HIT", []string{"X-Lang", "a"}},
		{"/key/2", "MISS", []string{"User_Agent", "b"}}, {"/key/2", "MISS", nil}, {"/key/2", "HIT", nil},
		{"/key/3", "MISS", []string{"X_Lang", "a"}}, {"/key/3", "HIT", []string{"X_Lang", "a"}},
		{"/key/3", "MISS", nil},
		{"/key/4", "MISS", []string{"X_Other", "a"}}, {"/key/4", "HIT", []string{"X_Other", "a"}},
	} {
		if got := a.get(test.path, append(test.fields, "User-Agent", "")...).header.Get("X-Cache"); got != test.state {
			t.Errorf("%s %q: %s, want %s", test.path, test.fields, got, test.state)
		}
	}
}
