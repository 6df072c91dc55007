package load_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
)

// If a server closes each connection, reopening does not keep other connections from ever opening.
func TestReopeningLeavesRoomForNewConnections(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // it takes a tenth of a second, or for ever
	defer cancel()
	connected := false
	r, err := load.Run(ctx, load.Plan{
		URL: server.URL, Connections: 300, Threads: 1, Warmup: time.Millisecond, Requests: 10,
		Trace: &load.Trace{Connected: func() { connected = true }},
	})
	if err != nil || !connected || r.Requests == 0 {
		t.Errorf("connected: %v; %+v, %v", connected, r, err)
	}
}
