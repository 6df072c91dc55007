package server

import (
	"os"
	"slices"
)

// actionsOf returns the actions of signals, in their order. As in nginx, one that waits already is
// not repeated. Signals are always received: package signal drops one if the channel is full, which
// would be SIGUSR1 or SIGQUIT after many SIGHUP during a slow reload.
func actionsOf(signals <-chan os.Signal) (actions <-chan action, stop func()) {
	to, end := make(chan action), make(chan struct{})
	go func() {
		var waiting []action
		for {
			var first action
			var receiver chan<- action // nil if nothing waits
			if len(waiting) > 0 {
				first, receiver = waiting[0], to
			}
			select {
			case sig := <-signals:
				if a := actionOf(sig); !slices.Contains(waiting, a) {
					waiting = append(waiting, a)
				}
			case receiver <- first:
				waiting = waiting[1:]
			case <-end:
				return
			}
		}
	}()
	return to, func() { close(end) }
}
