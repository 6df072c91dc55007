package client

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// If a kept connection ends, and the new one negotiates HTTP/2, the retry sends the whole body.
func TestRetryOverHTTP2SendsWholeBody(t *testing.T) {
	for _, size := range []int{100, 100_000} {
		want := strings.Repeat("x", size)
		var upgraded atomic.Bool
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method == http.MethodGet {
				return
			}
			if r.ProtoMajor == 1 {
				upgraded.Store(true)
				nc, _, _ := http.NewResponseController(w).Hijack()
				nc.Close()
				return
			}
			_, _ = w.Write(body)
		}))
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.Close)
		offered := server.TLS.Clone()
		server.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := offered.Clone()
			if !upgraded.Load() {
				c.NextProtos = []string{protoHTTP1}
			}
			return c, nil
		}
		roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		c := New(&Config{Settings: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}})
		t.Cleanup(c.CloseIdleConnections)
		resp, err := c.RoundTrip(request(t, "GET", server.URL, nil))
		testkit.Must(t, err)
		resp.Body.Close()
		var isOpen atomic.Int32
		r := request(t, "POST", server.URL, strings.NewReader(want))
		countBodies(r, &isOpen)
		r.Header.Set("Idempotency-Key", "1")
		resp, err = c.RoundTrip(r)
		if err != nil {
			t.Errorf("%d bytes: %v", size, err)
			continue
		}
		got, err := io.ReadAll(resp.Body)
		if string(got) != want || err != nil || resp.ProtoMajor != 2 {
			t.Errorf("%d bytes: got %d over %s, %v", size, len(got), resp.Proto, err)
		}
		resp.Body.Close()
		testkit.WaitFor(t, "all bodies to be closed", func() bool { return isOpen.Load() == 0 })
	}
}

// countBodies makes isOpen the number of bodies of a request that are not closed.
func countBodies(r *http.Request, isOpen *atomic.Int32) {
	count := func(b io.ReadCloser) io.ReadCloser {
		isOpen.Add(1)
		return &countedBody{Reader: b, isOpen: isOpen}
	}
	if r.Body == nil {
		return
	}
	r.Body = count(r.Body)
	if again := r.GetBody; again != nil {
		r.GetBody = func() (io.ReadCloser, error) {
			b, err := again()
			return count(b), err
		}
	}
}

// countedBody is a body that counts itself until it is closed.
type countedBody struct {
	io.Reader
	isOpen *atomic.Int32
	once   sync.Once
}

func (b *countedBody) Close() error {
	b.once.Do(func() { b.isOpen.Add(-1) })
	return nil
}
