package nginxconf

import (
	"fmt"
	"testing"
)

// With zero requests or a zero timeout, each connection serves one request.
func TestZeroKeepaliveDisablesReuse(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "keepalive_requests 5;": 5, "keepalive_requests 0;": 1, "keepalive_timeout 0;": 1,
		"keepalive_timeout 0s;":  1,
		"keepalive_timeout 1ms;": 0, "keepalive_timeout 0; keepalive_requests 5;": 1,
		"keepalive_requests 0; keepalive_timeout 1m;": 1,
	} {
		r := parsed(t, fmt.Sprintf("events {} http { keepalive_timeout 0; keepalive_requests 0; upstream u { server 127.0.0.1:1; keepalive 2; %s } server { location / { proxy_pass http://u; } } }", text))
		if got := r.Config.Upstreams[0].KeepaliveRequests; got != want {
			t.Errorf("%q: %d requests, want %d", text, got, want)
		}
	}
}
