package trial

import (
	"math"
	"testing"
)

func TestCollectorRatesAreReadFromTrace(t *testing.T) {
	const text = `listening
gc 1 @0.100s 1%: 0.011+0.20+0.003 ms clock, 1+90/1/5+1 ms cpu, 4->4->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 1 P
gc 2 @1.000s 2%: 0.011+0.20+0.003 ms clock, 0.5+0.1/0.2/0.3+0.2 ms cpu, 4->4->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 1 P
GET / 200
gc 3 @1.250s 2%: 0.011+0.20+0.003 ms clock, 0.5+1/2/100+0.5 ms cpu, 4->5->2 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 1 P
gc 4 @1.500s 2%: 0.011+0.20+0.003 ms clock, 0.5+1/2/100+0.5 ms cpu, 5->5->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 1 P (forced)
gc 5 @2.`
	c := readCollector(text, 0.6) // without the first cycle, which belongs to the warm-up
	if c == nil || math.Abs(c.BytesPerSecond-2*(3+3)<<20) > 1 || math.Abs(c.CPUPerSecond-0.016) > 1e-9 {
		t.Errorf("%+v", c)
	}
	if c := readCollector(text, 0.3); c != nil {
		t.Errorf("rates of two runs: %+v", c)
	}
	if c := readCollector("gc 1 @x", 1); c != nil {
		t.Errorf("rates without a trace: %+v", c)
	}
}
