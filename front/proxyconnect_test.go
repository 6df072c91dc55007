package front_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// A websocket over HTTP/2 (RFC 8441) is not passed on, if the server of the handler offers it: its
// method is not allowed, as any CONNECT.
func TestExtendedConnectIsNotPassedOn(t *testing.T) {
	to := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the upstream receives %s", r.Method) })
	front := newFront(t, oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to),
		Header: []conf.Field{{Name: "Upgrade", Value: "$http_upgrade"}, {Name: "Connection", Value: "upgrade"}}}}))
	r := httptest.NewRequest(http.MethodConnect, "/chat", http.NoBody)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	r.Header[":protocol"] = []string{"websocket"}
	w := httptest.NewRecorder()
	front.ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("status %d", w.Code)
	}
}
