package nginxconf

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/internal/testkit"
)

// A listen with quic is left out entirely: its address does not accept TCP, and never without TLS.
func TestListenWithQUICDoesNotAcceptTCP(t *testing.T) {
	text := inHTTP(`server { listen 81; listen 8443 quic reuseport; listen 81 quic; listen [::]:8443 quic; http3 on; location / { empty_gif; } }
		server { listen 8444 quic; server_name only; location / { empty_gif; } }`)
	o := Options{FS: oneFile(text), Prefix: "/srv", Lenient: true}
	r, err := Parse("nginx.conf", o)
	testkit.Must(t, err)
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
		strings.Count(err.Error(), `parameter "quic" is not supported`) != 4 ||
		strings.Count(err.Error(), "this program was built without HTTP/3") != 5 {
		t.Errorf("%v", err)
	}
}

// With HTTP3 the addresses of UDP are separate from those of TCP, each with its default server and
// settings.
func TestQUICAddressesAreSeparate(t *testing.T) {
	text := inHTTP(`ssl_certificate c; ssl_certificate_key k;
		server { listen 443 ssl; listen 443 quic reuseport; http2 on; server_name a; location / { empty_gif; } }
		server { listen 443 ssl default_server; listen 443 quic; listen [::1]:443 quic; http3 off; server_name b;
			quic_retry on; http3_max_concurrent_streams 7; http3_stream_buffer_size 10k; quic_host_key /key;
			location / { empty_gif; } }
		server { listen 127.0.0.1:443 quic; server_name c; http3_max_concurrent_streams 5; location / { empty_gif; } }`)
	files := fstest.MapFS{"nginx.conf": {Data: []byte(text)}, "key": {Data: []byte("secret")}}
	r, err := Parse("nginx.conf", Options{FS: files, Prefix: "/srv", HTTP3: true})
	testkit.Must(t, err)
	type settings struct {
		retry   bool
		streams int
		window  int64
		hostKey string
	}
	want := map[string]settings{"*:443": {}, "quic:*:443": {streams: 128, window: 64 << 10},
		"quic:[::1]:443": {true, 7, 10 << 10, "secret"}, "quic:127.0.0.1:443": {streams: 5, window: 64 << 10}}
	for i := range r.Process.Listeners {
		l := &r.Process.Listeners[i]
		got := settings{l.HTTP3Retry, l.HTTP3Streams, l.HTTP3Window, string(l.HTTP3HostKey)}
		if s, ok := want[l.Addr]; !ok || s != got || !l.TLS || l.HTTP2 != (l.Addr == "*:443") {
			t.Errorf("%s: %+v", l.Addr, l)
		}
		delete(want, l.Addr)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].Text, "are those of quic:*:443") {
		t.Errorf("warnings: %v", r.Warnings)
	}
	for _, h := range r.Config.Hosts {
		for _, l := range h.Listen {
			if overUDP := strings.HasPrefix(l.Addr, "quic:"); l.HTTP3 != (overUDP && h.Names[0] != "b") {
				t.Errorf("%s at %s: HTTP/3 %v", h.Names[0], l.Addr, l.HTTP3)
			}
		}
	}
}
