package reuse

import (
	"testing"
	"testing/synctest"
	"time"
)

type sleeper struct{ work chan int }

// More goroutines than maxFree wait for a limited time.
func TestSurplusGoroutinesEndAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 4 * maxFree
		var l FreeList[sleeper]
		worked, ended := make(chan int, n), make(chan bool, n)
		for range n {
			go func() {
				s := &sleeper{make(chan int, 1)}
				for {
					w, ok := AwaitWork(&l, s, s.work)
					if !ok {
						ended <- true
						return
					}
					worked <- w
				}
			}()
		}
		for round := range 5 {
			time.Sleep(surplusTimeout * 9 / 10)
			var busy []*sleeper
			for range n {
				s := l.Get()
				if s == nil {
					t.Fatalf("round %d: %d of %d wait", round, len(busy), n)
				}
				busy = append(busy, s)
			}
			for i, s := range busy {
				s.work <- i
			}
			for range n {
				<-worked
			}
			synctest.Wait()
		}
		time.Sleep(2 * surplusTimeout)
		synctest.Wait()
		if len(ended) != n-maxFree || len(l.Free) != maxFree {
			t.Errorf("%d ended and %d wait, of %d", len(ended), len(l.Free), n)
		}
		for _, s := range l.Stop() {
			close(s.work)
		}
		synctest.Wait()
		if len(ended) != n {
			t.Errorf("%d of %d have ended", len(ended), n)
		}
		if s := (&sleeper{}); func() bool { _, ok := AwaitWork(&l, s, s.work); return ok }() {
			t.Error("a stopped list keeps an element")
		}
	})
}

// A goroutine that receives work just when its time is over does the work.
func TestSurplusGoroutineIsUsableAtItsTimeout(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var l FreeList[sleeper]
			l.Free = make([]*sleeper, maxFree)
			s := &sleeper{make(chan int, 1)}
			got := make(chan bool)
			go func() {
				_, ok := AwaitWork(&l, s, s.work)
				got <- ok
			}()
			time.Sleep(surplusTimeout)
			removed := l.Get() == s
			if removed {
				s.work <- 1
			}
			if ok := <-got; ok != removed {
				t.Errorf("removed: %v, worked: %v", removed, ok)
			}
		})
	}
}
