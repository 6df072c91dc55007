package sample_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

func TestLimitsAreParsedAndPrinted(t *testing.T) {
	for text, want := range map[string]sample.Limit{
		"<= 1.05": {Value: 1.05}, ">=2": {Value: 2, Least: true}, "<= 8192": {Value: 8192},
	} {
		l, err := sample.ParseLimit(text)
		if err != nil || l != want {
			t.Errorf("%s: %+v, %v", text, l, err)
		}
		b, err := json.Marshal(sample.Target{Require: l})
		var back sample.Target
		if err != nil || json.Unmarshal(b, &back) != nil || back.Require != want || back.Aim.IsSet() {
			t.Errorf("%s: %s, %+v, %v", text, b, back, err)
		}
	}
	for _, text := range []string{"", "1.05", "< 1", "<= 0", "<= x", ">= -1", "<= nan", ">= inf"} {
		testkit.Fails(sample.ParseLimit(text))(t, "", text)
	}
}

func TestMetricsOfOneRecord(t *testing.T) {
	r := &sample.Record{
		Condition: sample.Condition{Connections: 10}, Load: &load.Result{Requests: 4},
		Idle: &sample.Idle{Before: 1000, With: 5000},
		Attribution: &sample.Attribution{
			Calls: map[string]map[string]uint64{contender.RoleApplication: {"read": 8, "close": 4}},
		},
	}
	for m, want := range map[sample.Metric]float64{sample.Memory: 400, sample.Calls: 3, sample.Transfers: 2} {
		testkit.Equal(t, m.Of(r), want, m)
	}
	for _, m := range []sample.Metric{sample.Memory, sample.Calls, sample.Resting, "ns/op"} {
		if got := m.Of(&sample.Record{Load: r.Load}); !math.IsNaN(got) {
			t.Errorf("%s without a figure: %v", m, got)
		}
	}
	for m, want := range map[sample.Metric]bool{"p89.1": true, "p100": false, "p0": false, "px": false, "cpu": true,
		"front cpu": true, "": false, "p": false} {
		testkit.Equal(t, m.IsKnown(), want, m, "is known")
	}
}
