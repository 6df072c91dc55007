package netconn

import (
	"time"

	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/engine/reuse"
)

// StreamWorkers are the goroutines that run the handlers of HTTP/2 streams. One whose handler has
// returned runs another.
type StreamWorkers struct {
	free reuse.FreeList[streamWorker]
}

type streamWorker struct {
	next chan *h2.Stream
	age  reuse.Age
}

// serve makes a worker run a stream's handler.
func (s *StreamWorkers) serve(st *h2.Stream) {
	if w := s.free.Get(); w != nil {
		w.next <- st
		return
	}
	go s.run(&streamWorker{next: make(chan *h2.Stream, 1)}, st)
}

// run runs handlers until the worker is no longer needed. Goexit in a handler ends it, too.
func (s *StreamWorkers) run(w *streamWorker, st *h2.Stream) {
	for ok := true; ok; st, ok = reuse.AwaitWork(&s.free, w, w.next) {
		st.Run(nil, 0)
		st.Settle()
		reuse.ResetLabels()
		if w.age.IsOver(time.Now()) {
			return
		}
	}
}

// Stop ends the free workers now, and the others when their handlers have returned.
func (s *StreamWorkers) Stop() {
	for _, w := range s.free.Stop() {
		close(w.next)
	}
}
