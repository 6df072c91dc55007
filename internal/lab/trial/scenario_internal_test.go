package trial

import (
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

func TestPlansOfScenarios(t *testing.T) {
	b := &Bench{
		CPUs: []int{0}, Request: equal.Request{Method: "GET", Path: "/", Host: "a.test"},
		Bodies: map[string][]byte{"": []byte("small"), "/large": []byte("large")},
	}
	at := contender.Place{Protocol: contender.HTTP, Address: "127.0.0.1:1", TLS: true}
	for _, test := range []struct {
		name     string
		scenario sample.Scenario
		want     load.Plan
		caches   bool
	}{
		{"plain", sample.Scenario{},
			load.Plan{URL: "https://127.0.0.1:1/", Pipeline: 1, Expect: load.Expect{Body: []byte("small")}}, false},
		{"streams", sample.Scenario{Version: equal.HTTP2, Streams: 32},
			load.Plan{URL: "https://127.0.0.1:1/", Version: load.HTTP2, Pipeline: 32,
				Expect: load.Expect{Body: []byte("small")}}, false},
		{"path", sample.Scenario{Path: "/large"},
			load.Plan{URL: "https://127.0.0.1:1/large", Pipeline: 1,
				Expect: load.Expect{Body: []byte("large")}}, false},
		{"unknown path", sample.Scenario{Path: "/other"},
			load.Plan{URL: "https://127.0.0.1:1/other", Pipeline: 1}, false},
		{"full", sample.Scenario{Handshakes: sample.Full},
			load.Plan{URL: "https://127.0.0.1:1/", Pipeline: 1, PerConnection: 1,
				Expect: load.Expect{Body: []byte("small")}}, false},
		{"resumed", sample.Scenario{Handshakes: sample.Resumed},
			load.Plan{URL: "https://127.0.0.1:1/", Pipeline: 1, PerConnection: 1,
				Expect: load.Expect{Body: []byte("small")}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := b.plan(at, sample.Condition{Connections: 4, Scenario: test.scenario}, []int{0})
			want := &test.want
			if got.URL != want.URL || got.Version != want.Version || got.Pipeline != want.Pipeline ||
				got.PerConnection != want.PerConnection || string(got.Expect.Body) != string(want.Expect.Body) {
				t.Errorf("got %+v", got)
			}
			if got.TLS == nil || got.TLS.ServerName != "a.test" || (got.TLS.ClientSessionCache != nil) != test.caches {
				t.Errorf("TLS %+v", got.TLS)
			}
		})
	}
	at.TLS = false
	four := sample.Condition{Connections: 4}
	if got := b.plan(at, four, []int{0}); got.TLS != nil || got.URL != "http://127.0.0.1:1/" {
		t.Errorf("without TLS: %s, %+v", got.URL, got.TLS)
	}
}

func TestExpressionsOfThePathAreTheExperimentsOwn(t *testing.T) {
	b := &Bench{Template: "/{{seq}}", Request: equal.Request{Method: "GET", Path: "/0", Host: "a.test"}}
	at := contender.Place{Protocol: contender.HTTP, Address: "127.0.0.1:1"}
	one := sample.Condition{Connections: 1}
	if p := b.plan(at, one, []int{0}); !p.Template || p.URL != "http://127.0.0.1:1/{{seq}}" {
		t.Errorf("got %s, %v", p.URL, p.Template)
	}
	own := sample.Condition{Connections: 1, Scenario: sample.Scenario{Path: "/large"}}
	if p := b.plan(at, own, []int{0}); p.Template || p.URL != "http://127.0.0.1:1/large" {
		t.Errorf("got %s, %v", p.URL, p.Template)
	}
}

func TestSessionsThatAreNotResumedAreAFault(t *testing.T) {
	for _, test := range []struct {
		handshakes        string
		connects, resumed uint64
		want              string
	}{
		{sample.Resumed, 100, 95, ""},
		{sample.Resumed, 100, 94, "it resumed 94 of 100 TLS sessions"},
		{sample.Full, 100, 0, ""},
		{"", 0, 0, ""},
	} {
		s := sample.Scenario{Handshakes: test.handshakes}
		result := &load.Result{Connects: test.connects, Resumed: test.resumed}
		testkit.Equal(t, handshakeFault(&s, result), test.want, test)
	}
}

// Responses that differ from the expected one are wrong. The statuses of an overloaded server are
// errors of another kind.
func TestOverloadIsNoWrongResponse(t *testing.T) {
	for _, test := range []struct {
		errors   load.Errors
		statuses map[int]uint64
		want     uint64
	}{
		{load.Errors{}, map[int]uint64{200: 9}, 0},
		{load.Errors{Status: 5, Body: 2, Header: 1}, map[int]uint64{200: 9, 500: 5}, 8},
		{load.Errors{Status: 9, Read: 4, Timeout: 2, Connect: 1}, map[int]uint64{502: 3, 503: 2, 504: 1, 404: 3}, 3},
		{load.Errors{Body: 2}, map[int]uint64{503: 2}, 2}, // an expected status with a wrong body
	} {
		testkit.Equal(t, wrong(&load.Result{Errors: test.errors, Statuses: test.statuses}), test.want, test)
	}
}
