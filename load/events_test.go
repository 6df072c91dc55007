package load_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
)

// Events are counted as they arrive, whether or not the response ends, over HTTP/1.1 and HTTP/2.
func TestEventsAreCounted(t *testing.T) {
	const events, pause = 4, 20 * time.Millisecond
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		for i := 0; i < events || r.URL.Query().Has("endless") && r.Context().Err() == nil; i++ {
			if i > 0 {
				time.Sleep(pause)
			}
			fmt.Fprintf(w, ": a comment\n\ndata: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	})
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	for _, test := range []struct {
		query string
		plan  load.Plan
		want  uint64 // 0: at least one
	}{
		{"?type=text/event-stream%3Bcharset=utf-8", load.Plan{Requests: 3}, 3 * events},
		{"?type=text/event-stream", load.Plan{Requests: 3, Version: load.HTTP2, Pipeline: 3}, 3 * events},
		{"?type=text/event-stream&endless", load.Plan{Duration: time.Second}, 0},
	} {
		test.plan.URL, test.plan.Connections = server.URL+"/"+test.query, 1
		r := run(t, test.plan)
		if r.Events == 0 || test.want > 0 && r.Events != test.want {
			t.Fatalf("%s: %d events, want %d", test.query, r.Events, test.want)
		}
		if h := r.BetweenEvents; h.Quantile(0.5) < pause/2 || test.want > 0 && h.Count() != 3*(events-1) {
			t.Errorf("%s: %d times between events, median %v", test.query, h.Count(), h.Quantile(0.5))
		}
	}
	if r := run(t, load.Plan{URL: server.URL + "/?type=text/plain", Connections: 1, Requests: 1}); r.Events != 0 {
		t.Errorf("%d events in plain text", r.Events)
	}
}
