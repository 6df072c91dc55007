package front_test

import (
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/testkit"
)

// openedAt is the information about a connection.
type openedAt struct {
	time.Time
	requests int
	number   connection.Number
}

func (o *openedAt) Opened() time.Time { return o.Time }
func (o *openedAt) CountRequest() int { o.requests++; return o.requests }

func (o *openedAt) Number(counter *atomic.Int64) int64 { return o.number.Of(counter) }

// $connection counts connections, and is the same for all requests of a connection.
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
	one, two := &openedAt{Time: time.Now()}, &openedAt{Time: time.Now()}
	for i, c := range []struct {
		info *openedAt
		want string
	}{{one, "1"}, {one, "1"}, {two, "2"}, {one, "1"}, {nil, ""}} {
		testkit.Equal(t, number(c.info, "192.0.2.1:1"), c.want, "request", i)
	}
}
