package pairs_test

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/contenders/engines"
	"github.com/tarehq/tare/contenders/engines/fastclient"
)

// waiting returns clients with a limited number of connections: a request waits for a free one.
func waiting() clients {
	return clients{
		func(o engines.ClientOptions) engines.Client {
			return &engines.HTTPClient{Client: http.Client{Transport: &tare.Transport{
				MaxIdleConnsPerHost: o.Conns, MaxConnsPerHost: o.Conns,
			}}}
		},
		func(o engines.ClientOptions) engines.Client {
			return &engines.HTTPClient{Client: http.Client{Transport: &http.Transport{
				MaxIdleConnsPerHost: o.Conns, MaxConnsPerHost: o.Conns,
			}}}
		},
		func(o engines.ClientOptions) engines.Client {
			return &fastclient.Client{
				Client: fasthttp.Client{MaxConnsPerHost: o.Conns, MaxConnWaitTimeout: time.Minute}}
		},
	}
}

// BenchmarkShared measures requests of a thousand goroutines that share a hundred connections.
func BenchmarkShared(b *testing.B) {
	const workers, conns = 1000, 100
	waiting().pairs(b, func(b *testing.B, open newClient) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		s := newEcho()
		go func() { _ = s.Serve(l) }() // always an error: the listener is closed
		c := open(engines.ClientOptions{Conns: conns})
		url := "http://" + l.Addr().String() + "/"
		share(b, workers, workers, c, url) // the first requests open connections and take longer
		b.ResetTimer()
		times := share(b, workers, b.N, c, url)
		b.StopTimer()
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
		c.Close()
		l.Close()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
}

// share sends n requests from the given number of goroutines and returns the time of each.
func share(b *testing.B, workers, n int, c engines.Client, url string) []time.Duration {
	times := make([]time.Duration, n)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			exchange := c.Get(url)
			for i := w; i < n; i += workers {
				began := time.Now()
				if _, _, err := exchange(); err != nil {
					b.Error(err)
					return
				}
				times[i] = time.Since(began)
			}
		})
	}
	all.Wait()
	return times
}
