package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/poison"
	"github.com/tarehq/tare/internal/testkit"
)

// releaser is what a proxy finds in a response.
type releaser interface {
	ReleaseRequest()
	KeepRequest()
}

// A released request's memory serves the next one: only the string of the head is new.
func TestReleasedRequestIsReused(t *testing.T) {
	if testkit.Race || poison.Enabled {
		t.Skip("the race detector allocates, and poisoned memory is not reused")
	}
	withoutReserve(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "Hello World\n")
		w.(releaser).ReleaseRequest()
	})
	checkBudget(t, spent(func(n int) {
		serveRepeatedly(httpServer(&http.Server{Handler: handler}), get, n)
	}), spending{1, 64})
}

// A release concerns one request. Those that a handler keeps do not change when others are
// released, and neither does one whose context or body another goroutine may use.
func TestReleaseConcernsOneRequest(t *testing.T) {
	const requests = 60
	var mu sync.Mutex
	kept := make(map[string]*http.Request)
	someModes(t, handle(func(w http.ResponseWriter, r *http.Request) {
		fields := len(r.Header)
		if got := r.Header.Get("X-Path"); got != r.URL.Path || r.Header.Get("X-Odd") != "" && fields != 4 {
			t.Errorf("%s has the fields %v", r.URL.Path, r.Header)
		}
		how, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if how != "release" {
			mu.Lock()
			kept[r.URL.Path] = r
			mu.Unlock()
		}
		if how == "watch" {
			go func() { <-r.Context().Done() }()
			if err := r.Context().Err(); err != nil {
				t.Errorf("%s: %v before the end", r.URL.Path, err)
			}
		}
		fmt.Fprint(w, r.URL.Path)
		if how == "override" {
			w.(releaser).KeepRequest()
		}
		if how != "keep" {
			w.(releaser).ReleaseRequest()
		}
	}), func(s *site) {
		clear(kept)
		for i := range requests {
			how := []string{"release", "keep", "watch", "release", "body", "override"}[i%6]
			method, body := http.MethodGet, io.Reader(nil)
			if how == "body" {
				method, body = http.MethodPost, strings.NewReader("some text")
			}
			r, err := http.NewRequest(method, fmt.Sprintf("http://host/%s/%d", how, i), body)
			if err != nil {
				s.Fatal(err)
			}
			r.Header.Set("X-Path", r.URL.Path)
			if i%2 == 1 && body == nil {
				r.Header["X-Odd"] = []string{"1", "2"}
				r.Header.Set("Accept", "*/*")
			}
			resp, err := s.client.Do(r)
			if err != nil {
				s.Fatal(err)
			}
			if b, err := io.ReadAll(resp.Body); string(b) != r.URL.Path || err != nil {
				s.Errorf("%s: %q, %v", r.URL.Path, b, err)
			}
			resp.Body.Close()
		}
		mu.Lock()
		defer mu.Unlock()
		if len(kept) != requests*4/6 {
			s.Errorf("kept %d requests", len(kept))
		}
		for path, r := range kept {
			if r.URL.Path != path || r.Header.Get("X-Path") != path || r.Context().Err() == nil {
				s.Errorf("%s has changed: %v %v %v", path, r.URL, r.Header, r.Context().Err())
			}
		}
	}, "tcp", "memory", "ServeTLS")
}

// BenchmarkReleased compares requests whose memory is reused with others.
func BenchmarkReleased(b *testing.B) {
	for name, release := range map[string]bool{"kept": false, "released": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			serveRepeatedly(httpServer(&http.Server{Handler: http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, "Hello World\n")
					if release {
						w.(releaser).ReleaseRequest()
					}
				})}), get, b.N)
		})
	}
}
