package load_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// A Plan requires a URL. Without a Pace it is a closed loop on 10 connections for 10 seconds.
func ExamplePlan() {
	server := hello()
	defer server.Close()
	plan := load.Plan{
		URL: server.URL + "/users", Method: "POST", Header: []string{"Content-Type: application/json"},
		Body: `{"name": "Gopher"}`, Connections: 4, Requests: 200, Expect: load.Expect{Body: []byte("hello\n")},
	}
	r, err := load.Run(context.Background(), plan)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("responses:", r.Requests, "errors:", r.Errors.Total(), "connections:", r.Connections)
	// Output:
	// responses: 200 errors: 0 connections: 4
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

// A number of requests from a template, each kept with its times. Unexpected responses are errors.
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
