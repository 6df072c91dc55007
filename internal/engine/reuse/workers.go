package reuse

import "time"

// Workers are goroutines that run a function for one value after another. One that is free has a
// stack that has already grown to what handlers need.
type Workers[T any] struct {
	run  func(T)
	free FreeList[worker[T]]
}

type worker[T any] struct {
	next chan T
	age  Age
}

// NewWorkers returns workers without a goroutine.
func NewWorkers[T any](run func(T)) *Workers[T] { return &Workers[T]{run: run} }

// Run makes a worker run the function for v.
func (s *Workers[T]) Run(v T) {
	if w := s.free.Get(); w != nil {
		w.next <- v
		return
	}
	go s.work(&worker[T]{next: make(chan T, 1)}, v)
}

// work runs the function until the worker is no longer needed. Goexit in a handler ends it, too.
func (s *Workers[T]) work(w *worker[T], v T) {
	for ok := true; ok; v, ok = AwaitWork(&s.free, w, w.next) {
		s.run(v)
		ResetLabels()
		if w.age.IsOver(time.Now()) {
			return
		}
	}
}

// Stop ends the free workers now, and the others when the function has returned.
func (s *Workers[T]) Stop() {
	for _, w := range s.free.Stop() {
		close(w.next)
	}
}
