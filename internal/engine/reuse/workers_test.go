package reuse

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// A worker that is older than MaxAge ends, and its state with it.
func TestWorkersEndWithAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := make(chan int, 1)
		s := NewWorkers(func(n *int, _ struct{}) time.Time {
			*n++
			runs <- *n
			return time.Now()
		})
		for _, want := range []int{1, 2, 3, 4, 1} {
			s.Run(struct{}{})
			testkit.Equal(t, <-runs, want, "runs of its goroutine")
			synctest.Wait()
			time.Sleep(MaxAge*2/5 + 1)
		}
		s.Stop()
	})
}

// More goroutines than maxFree wait for a limited time.
func TestSurplusWorkersEndAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 4 * maxFree
		began, release := time.Now(), make(chan bool)
		s := NewWorkers(func(*struct{}, int) time.Time {
			<-release
			return began // no worker ends with age
		})
		free := func() int {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.free)
		}
		for round := range 5 {
			for i := range n {
				s.Run(i)
			}
			for range n {
				release <- true
			}
			testkit.Equal(t, free(), n, "workers wait in round", round)
			time.Sleep(surplusTimeout * 9 / 10)
		}
		time.Sleep(2 * surplusTimeout)
		testkit.Equal(t, free(), maxFree, "workers wait")
		s.Stop() // else the test fails, because goroutines are blocked
	})
}
