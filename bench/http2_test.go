package bench_test

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"

	"github.com/tarehq/tare/load"
)

// overHTTP2 returns the cases of HTTP/2. Experiment tls has the others.
func overHTTP2() []scenario {
	return []scenario{{name: "http2-one-in-ten-sleeps", measure: oneInTenSleeps, bounds: []bound{
		{of: "fast " + p99, than: netHTTP, require: even, aim: 0.5},
	}}}
}

// oneInTenSleeps loads a server over TLS with streams of which one in ten runs a handler that
// sleeps. All share connections. The fast ones' 99th percentile is estimated from all latencies:
// the slow ones have the highest.
func oneInTenSleeps(f *field, server string) (values sample, err error) {
	const perSecond, connections, streams, inTen = 6000, 8, 32, 0.9
	r, err := f.start(server, f.server, "/hello", "-tls")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	result, err := load.Run(context.Background(), load.Plan{
		URL: "https://" + r.Address + "/hello", Version: load.HTTP2, TLS: &tls.Config{InsecureSkipVerify: true},
		List: append(slices.Repeat([]load.Request{{URL: "/hello"}}, 9), load.Request{URL: "/sleep"}),
		Pace: load.Constant(perSecond), Connections: connections, Pipeline: streams,
		Warmup: f.warmup, Duration: f.load, Timeout: patience, CPUs: f.generator, Threads: 1,
	})
	if err == nil {
		err = faultless(result)
	}
	if err != nil {
		return nil, err
	}
	return sample{"fast " + p99: micros(result.Latency.Quantile(inTen * 0.99))}, nil
}
