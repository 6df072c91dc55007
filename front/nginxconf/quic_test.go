package nginxconf

import (
	"strings"
	"testing"
)

// A listen with quic is left out entirely: its address does not accept TCP, and never without TLS.
func TestListenWithQUICDoesNotAcceptTCP(t *testing.T) {
	text := inHTTP(`server { listen 81; listen 8443 quic reuseport; listen 81 quic; listen [::]:8443 quic; http3 on; location / { empty_gif; } }
		server { listen 8444 quic; server_name only; location / { empty_gif; } }`)
	o := Options{FS: oneFile(text), Prefix: "/srv", Lenient: true}
	r, err := Parse("nginx.conf", o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Process.Listeners) != 1 || r.Process.Listeners[0].Addr != "*:81" {
		t.Errorf("%+v", r.Process.Listeners)
	}
	for _, h := range r.Config.Hosts {
		for _, l := range h.Listen {
			if l.Addr != "*:81" {
				t.Errorf("%v at %s", h.Names, l.Addr)
			}
		}
		if len(h.Listen) == 0 {
			t.Errorf("%v listens at every address", h.Names)
		}
	}
	o.Lenient = false
	if _, err := Parse("nginx.conf", o); err == nil ||
		strings.Count(err.Error(), `parameter "quic" is not supported`) != 4 {
		t.Errorf("%v", err)
	}
}
