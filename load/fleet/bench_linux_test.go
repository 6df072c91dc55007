package fleet_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/fleet"
)

// The requests per second of CPU time of several agents, as a share of one agent's. At least 0.95
// is wanted.
func BenchmarkAgents(b *testing.B) {
	const each = 2000 // requests per second of each agent
	own, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	url, _ := server(b)
	perCPU := func(n int) float64 {
		var hosts []fleet.Host
		for range n {
			hosts = append(hosts, fleet.Local("local", own))
		}
		f, err := fleet.Open(context.Background(), hosts, fleet.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		r, err := f.Run(context.Background(), load.Plan{URL: url, Connections: 16 * n, Threads: 1,
			Pace: load.Constant(each * float64(n)), Warmup: 500 * time.Millisecond, Duration: 4 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		return float64(r.Requests) / (r.Generator.UserSeconds + r.Generator.SysSeconds)
	}
	for _, n := range []int{2, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			sum := 0.0
			for range b.N {
				sum += perCPU(n) / perCPU(1)
			}
			b.ReportMetric(sum/float64(b.N), "share")
		})
	}
}
