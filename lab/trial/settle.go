package trial

import (
	"time"

	"github.com/tarehq/tare/lab/stat"
	"github.com/tarehq/tare/load"
)

// unsettled returns for how long the rate was on another level than later, by the responses of all
// threads in each window.
func unsettled(threads [][]uint32) time.Duration {
	var rates []float64
	for _, windows := range threads {
		for i, n := range windows[:max(0, len(windows)-1)] { // the last is shorter
			if i == len(rates) {
				rates = append(rates, 0)
			}
			rates[i] += float64(n)
		}
	}
	from, ok := stat.Steady(rates)
	if !ok {
		return 0
	}
	return time.Duration(from) * load.WindowLength
}
