package load_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/tarehq/tare/load"
)

// hello starts the server of the examples.
func hello() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintln(w, "hello")
	}))
}

// In a closed loop, each connection sends its next request after the previous response.
func ExampleRun() {
	server := hello()
	defer server.Close()
	r, err := load.Run(context.Background(), load.Plan{
		URL: server.URL, Connections: 8, Warmup: 50 * time.Millisecond,
		Duration: time.Minute, Requests: 1000, // the run ends at the first of these
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("responses:", r.Requests > 0, "errors:", r.Errors.Total(), "all of status 200:",
		r.Statuses[200] == r.Requests)
	fmt.Println("a latency:", r.Latency.Quantile(0.99) > 0)
	// Output:
	// responses: true errors: 0 all of status 200: true
	// a latency: true
}

// In an open loop, requests are due on a schedule. Latency counts from when they were due, so it
// shows how long requests would have waited for a server that stalls.
func ExamplePace() {
	server := hello()
	defer server.Close()
	r, err := load.Run(context.Background(), load.Plan{
		URL: server.URL, Connections: 8, Duration: 500 * time.Millisecond,
		Pace: load.Pace{Steps: []load.Step{{From: 0, To: 400, For: 250 * time.Millisecond}, {From: 400, To: 400}},
			Poisson: true, Seed: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("due:", r.Due > 100, "since due and since sent:", r.Latency.Count() >= r.Service.Count())
	fmt.Println("the generator's own lag is known:", r.Generator.Lag.Count() > 0)
	// Output:
	// due: true since due and since sent: true
	// the generator's own lag is known: true
}

// A Plan requires a URL. Without a Pace it is a closed loop on 10 connections for 10 seconds, or
// until a number of requests. These are from a template, each kept with its times. Unexpected
// responses are errors.
func ExamplePlan_requests() {
	server := hello()
	defer server.Close()
	r, err := load.Run(context.Background(), load.Plan{
		URL: server.URL, Connections: 2, Requests: 100, Samples: 100, Template: true,
		List: []load.Request{
			{URL: "/users/{{random 1 1000}}"},
			{URL: "/orders", Method: "POST", Body: `{"number": {{seq}}}`,
				Header: []string{"Content-Type: application/json"}},
		},
		Expect: load.Expect{Status: []int{200}, Header: []string{"Content-Type: text/plain"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	slowest := r.Samples[0]
	for _, s := range r.Samples {
		if s.Done-s.Sent > slowest.Done-slowest.Sent {
			slowest = s
		}
	}
	fmt.Println(r.Requests, "responses,", r.Errors.Total(), "not as expected; the slowest had status", slowest.Status)
	// Output:
	// 100 responses, 0 not as expected; the slowest had status 200
}

// When its context ends, a run returns what it measured until then.
func ExampleRun_cancel() {
	server := hello()
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := load.Run(ctx, load.Plan{URL: server.URL, Duration: time.Hour, Trace: &load.Trace{
		Progress: func(p load.Progress) {
			if p.Requests > 10 {
				cancel()
			}
		},
	}})
	fmt.Println(errors.Is(err, context.Canceled), r.Requests > 10)
	// Output:
	// true true
}

// Sessions load two servers in turn, so that whatever disturbs the machine disturbs both.
func ExampleSession() {
	ctx := context.Background()
	var sessions []*load.Session
	for range 2 {
		server := hello()
		defer server.Close()
		s, err := load.Open(ctx, load.Plan{URL: server.URL, Connections: 4})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer s.Close()
		sessions = append(sessions, s)
	}
	var requests [2]uint64
	for round := 0; min(requests[0], requests[1]) < 100; round++ {
		for i, s := range sessions {
			slice, err := s.Slice(ctx, 20*time.Millisecond, round > 0) // the first one warms up and does not count
			if err != nil {
				fmt.Println(err)
				return
			}
			requests[i] += slice.Requests
		}
	}
	a, b := sessions[0].Close(), sessions[1].Close()
	fmt.Println("both were loaded:", a.PerSecond() > 0 && b.PerSecond() > 0, "errors:",
		a.Errors.Total()+b.Errors.Total())
	// Output:
	// both were loaded: true errors: 0
}

// A Plan is divided for processes that some other system places, such as the jobs of a CI service.
// The joined Result is that of one process with all threads. Here goroutines stand for the
// processes, whose parts and results would travel as JSON.
func ExampleJoiner() {
	server := hello()
	defer server.Close()
	plan := load.Plan{URL: server.URL, Connections: 6, Requests: 600}
	parts, err := plan.Split([]int{1, 2}) // threads of each process
	if err != nil {
		fmt.Println(err)
		return
	}
	results := make([]*load.Result, len(parts))
	var running sync.WaitGroup
	for i, part := range parts {
		running.Go(func() { results[i], _ = load.Run(context.Background(), part) })
	}
	running.Wait()
	joiner := load.NewJoiner(parts, []string{"first", "second"}, nil)
	for i, r := range results {
		if r == nil {
			joiner.Lose(i, "it ended without a result")
			continue
		}
		joiner.End(i, r, "")
	}
	whole := joiner.Result()
	fmt.Println(whole.Requests, "responses:", whole.Parts[0].Requests, "and", whole.Parts[1].Requests)
	fmt.Println("latencies:", whole.Latency.Count())
	// Output:
	// 600 responses: 200 and 400
	// latencies: 600
}
