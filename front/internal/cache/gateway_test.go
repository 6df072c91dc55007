package cache_test

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/internal/cache"
)

// gateway is a minimal proxy with the cache.
type gateway struct {
	cache  *cache.Cache
	rules  map[string]*cache.Rules
	origin string
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	use := strings.Split(r.URL.Path, "/")[1]
	key := r.URL.Path
	if use == "head" {
		key = r.Method + key
	}
	a, err := respond(g.cache, cache.Query{
		Context: r.Context(), Method: r.Method, Header: r.Header, HasBody: r.ContentLength != 0, Key: key,
		Rules: g.rules[use],
		Skip:  r.Header.Get("Skip") != "", NoStore: r.Header.Get("Keep") != "",
	}, proxied{g, r})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	for name, values := range a.Header {
		w.Header()[name] = append([]string(nil), values...)
	}
	a.Mark(w.Header())
	if a.State != "" {
		w.Header().Set("X-Cache", string(a.State))
	}
	if a.Passed != nil {
		defer a.Passed.Body.Close()
		w.WriteHeader(a.Status)
		_, err = io.Copy(w, a.Passed.Body)
	} else {
		defer a.Close()
		err = a.Send(w, r)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

type proxied struct {
	gateway *gateway
	r       *http.Request
}

func (q proxied) prepare(request cache.OriginRequest) cache.Fetch {
	out, err := http.NewRequest(request.Method, "http://"+q.gateway.origin+q.r.URL.Path, nil)
	if err != nil {
		return func(context.Context) (*http.Response, error) { return nil, err }
	}
	out.Header = q.r.Header.Clone()
	request.Apply(out.Header)
	return func(ctx context.Context) (*http.Response, error) {
		return http.DefaultTransport.RoundTrip(out.WithContext(ctx))
	}
}

func (q proxied) Field(name string) []string { return fieldOf(q.r.Header, q.r.Host, name) }
