package front_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/connection"
)

// openedAt is the information about a connection.
type openedAt struct {
	time.Time
	requests int
}

func (o *openedAt) Opened() time.Time { return o.Time }
func (o *openedAt) CountRequest() int { o.requests++; return o.requests }

// $connection is the same for all requests of a connection, and differs between connections.
func TestConnectionHasANumber(t *testing.T) {
	steps := []conf.Step{conf.Return{Status: 200, Text: "$connection"}}
	h := newFront(t, oneHost(conf.Location{Path: "/", Steps: steps}))
	number := func(info *openedAt, remote string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = remote
		if info != nil {
			r = r.WithContext(connection.With(r.Context(), info))
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Body.String()
	}
	now := time.Now()
	one := &openedAt{Time: now}
	first := number(one, "192.0.2.1:1")
	if again := number(one, "192.0.2.1:1"); first == "" || again != first {
		t.Errorf("%q, and then %q", first, again)
	}
	for _, other := range []string{
		number(&openedAt{Time: now}, "192.0.2.1:2"), number(&openedAt{Time: now.Add(1)}, "192.0.2.1:1"),
		number(nil, "192.0.2.1:1"),
	} {
		if other == first {
			t.Errorf("%q twice", other)
		}
	}
}
