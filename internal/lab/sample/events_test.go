package sample

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Tests{M: m}.Run()) }

// example is a case that lost requests.
func example() *Case {
	var t Traffic
	for n, o := range []Outcome{Response, Response, Refused, Refused, Status, Response} {
		t.Add(Request{Due: time.Duration(n) * 500 * time.Millisecond, Outcome: o, Took: time.Duration(n+1) * time.Millisecond})
	}
	return &Case{Traffic: t}
}

func TestRequestsAreCountedBySecond(t *testing.T) {
	total := example().Traffic
	sum := total.Sum()
	if sum.Sent() != 6 || sum.Lost() != 3 || sum.Outcomes[Refused] != 2 || sum.Outcomes[Status] != 1 {
		t.Errorf("%+v", sum)
	}
	if total.FirstLost != time.Second || total.LastLost != 2*time.Second {
		t.Errorf("%+v", total)
	}
	if len(total.Seconds) != 3 || total.Seconds[1].Lost() != 2 || total.Seconds[0].Slowest != 2*time.Millisecond {
		t.Errorf("%+v", total.Seconds)
	}
}

// Outcomes arrive in any order.
func TestLossesMayArriveLate(t *testing.T) {
	var traffic Traffic
	traffic.Add(Request{Due: 2 * time.Second, Outcome: Timeout})
	traffic.Add(Request{Due: time.Second, Outcome: Closed})
	traffic.Add(Request{Outcome: Response})
	if traffic.FirstLost != time.Second || traffic.LastLost != 2*time.Second {
		t.Errorf("%+v", traffic)
	}
}

// A case is disturbed if its clients were late, or if others had the processors. The report says
// what the processors did.
func TestDisturbedCasesAreReported(t *testing.T) {
	c := example()
	c.Work = Work{
		Cores: 2, Length: 3 * time.Second, Server: time.Second, Busy: 3 * time.Second, Clients: 300 * time.Millisecond,
	}
	late := Request{Due: time.Second, Outcome: Response, Took: 120 * time.Millisecond}
	for _, test := range []struct {
		late, stolen time.Duration
		want         string
	}{
		{100 * time.Millisecond, 300 * time.Millisecond, ""},
		{101 * time.Millisecond, 0, "up to 101 ms late; the processors were 50 % busy: server 17 %, clients 5 %, other"},
		{101 * time.Millisecond, 360 * time.Millisecond, "other virtual machines 6 %"},
	} {
		late.Late, c.Work.Stolen = test.late, test.stolen
		c.Traffic.Add(late)
		got := c.Disturbance(time.Second)
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%+v: %q", test, got)
		}
	}
	c.Traffic.Seconds[1].Latest = 0
	testkit.Contains(t, c.Disturbance(time.Second), "up to 0 ms late", "stolen time")
}

// A quantile counts lost requests as the slowest ones.
func TestLostRequestsHaveNoQuantile(t *testing.T) {
	var traffic Traffic
	if _, known := traffic.Quantile(0.5); known {
		t.Error("no request has a quantile")
	}
	for n := range 99 {
		traffic.Add(Request{Outcome: Response, Took: time.Duration(n+1) * time.Millisecond})
	}
	traffic.Add(Request{Outcome: Timeout})
	if d, known := traffic.Quantile(0.99); !known || d.Round(time.Millisecond) != 99*time.Millisecond {
		t.Error(d, known)
	}
	traffic.Add(Request{Outcome: Closed})
	if d, known := traffic.Quantile(0.99); known {
		t.Error(d)
	}
}
