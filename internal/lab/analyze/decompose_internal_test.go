package analyze

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

const (
	blocks   = 6
	perTrial = 100_000 // requests
)

// costly returns a trial with these costs alone: user and system time in µs per request, by role.
func costly(us map[string][2]float64) *sample.Record {
	r := &sample.Record{Load: &load.Result{Requests: perTrial}, Costs: make(map[string][]proc.Cost)}
	for role, c := range us {
		r.Costs[role] = []proc.Cost{{User: time.Duration(c[0] * perTrial * 1e3),
			Sys: time.Duration(c[1] * perTrial * 1e3)}}
	}
	return r
}

// Parts and residual add up to the total, within rounding. Unknown roles are in the residual.
func TestDecompositionAddsUpToTheTotal(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pair := func() [2]float64 { return [2]float64{20 * rnd.Float64(), 20 * rnd.Float64()} }
	for range 200 {
		var of, more, than []*sample.Record
		for range blocks {
			nginx, app := pair(), pair()
			of = append(of, costly(map[string][2]float64{contender.RoleNginx: nginx, contender.RoleApplication: app}))
			more = append(more, costly(map[string][2]float64{contender.RoleNginx: nginx,
				contender.RoleApplication: app, "helper": {30, 10}}))
			than = append(than, costly(map[string][2]float64{contender.RoleApplication: pair()}))
		}
		of[2], than[4] = nil, nil // trials that failed
		more[2] = nil
		var d, unknown Decomposition
		d.divide(of, than)
		unknown.divide(more, than)
		for _, d := range []*Decomposition{&d, &unknown} {
			sum := d.ResidualUs
			for _, p := range d.Parts {
				sum += p.Us.Mid
			}
			if len(d.Parts) != 4 || math.Abs(sum-d.TotalUs.Mid) > 1e-9 {
				t.Fatalf("%d parts and the residual are %v, the total %v", len(d.Parts), sum, d.TotalUs.Mid)
			}
		}
		if more := unknown.ResidualUs - d.ResidualUs; math.Abs(more-40) > 1e-3 {
			t.Fatalf("an unknown role uses 40 µs, and the residual has %v of them", more)
		}
	}
}

// About as many intervals as claimed contain the true part.
func TestDecompositionIntervalsContainTheTruth(t *testing.T) {
	const runs, extra = 1000, 2.0
	rnd := rand.New(rand.NewPCG(3, 4))
	noise := func() float64 { return math.Exp(rnd.NormFloat64()/3) - math.Exp(rnd.NormFloat64()/3) }
	held := make(map[string]int)
	for range runs {
		var of, than []*sample.Record
		for range blocks {
			drift := 2 * rnd.NormFloat64() // the same for all trials of a block
			one := func(user float64) *sample.Record {
				return costly(map[string][2]float64{contender.RoleApplication: {user + drift + noise(), 20 + drift +
					noise()}})
			}
			of, than = append(of, one(20+extra)), append(than, one(20))
		}
		var d Decomposition
		d.divide(of, than)
		for name, i := range map[string]struct {
			stat.Interval
			truth float64
		}{"user": {d.Part("application user").Us, extra}, "sys": {d.Part("application sys").Us, 0},
			"total": {d.TotalUs, extra}} {
			if i.Known() && i.Contains(i.truth) {
				held[name]++
			}
		}
	}
	// The binomial distribution gives 0.969, and 0.94 is five standard errors less. Intervals that
	// always contain the truth would be too wide.
	for _, name := range []string{"user", "sys", "total"} {
		testkit.Between(t, float64(held[name])/runs, 0.94, 0.995, name, "share of the intervals with the truth")
	}
}
