package front_test

import (
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// The address of the PROXY protocol is used only with real_ip_header proxy_protocol and a trusted
// proxy, by TCP or unix socket.
func TestProxyProtocolRequiresTrust(t *testing.T) {
	settings := conf.Settings{
		RealIP: conf.RealIP{From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Unix: true,
			Header: "proxy_protocol"},
		Access: []conf.AccessRule{{Net: netip.MustParsePrefix("192.0.2.0/24")}, {Unix: true, Deny: true},
			{Deny: true}},
	}
	others := settings
	others.RealIP = conf.RealIP{}
	h := newFront(t, oneHost(conf.Location{Path: "/trusting", Settings: &settings, Empty: true},
		conf.Location{Path: "/", Settings: &others, Empty: true}))
	value, without := netip.MustParseAddrPort("192.0.2.1:1000"), netip.AddrPort{}
	for _, test := range []struct {
		path, peer string
		header     *netip.AddrPort // nil: the connection has no header
		status     int
	}{
		{"/trusting", "10.0.0.1:1", &value, 200}, {"/trusting", "@", &value, 200},
		{"/trusting", "10.0.0.1:1", &without, 403},
		{"/trusting", "10.0.0.1:1", nil, 403}, {"/trusting", "@", nil, 403},
		{"/trusting", "@", &without, 403},
		{"/trusting", "198.51.100.1:1", &value, 403}, {"/trusting", "192.0.2.9:1", nil, 200},
		{"/", "10.0.0.1:1", &value, 403}, {"/", "@", &value, 403}, {"/", "192.0.2.9:1", &value, 200},
	} {
		r := httptest.NewRequest("GET", test.path, nil)
		if r.RemoteAddr = test.peer; test.header != nil {
			r = r.WithContext(front.WithProxyHeader(r.Context(), func() (source, destination netip.AddrPort) {
				return *test.header, netip.AddrPort{}
			}))
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != test.status {
			t.Errorf("%s from %s, %v: %d, want %d", test.path, test.peer, test.header, w.Code, test.status)
		}
	}
}
