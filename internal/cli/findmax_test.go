package cli_test

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// queueCapacity is the number of requests per second that helloQueue serves.
const queueCapacity = 500

// helloQueue handles requests one after the other, each for the same time on any machine. Its
// arguments are those of helloUnix.
func helloQueue() {
	var mu sync.Mutex
	var free time.Time // when it will have served all that has come
	serve(func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			if now := time.Now(); free.Before(now) {
				free = now
			}
			free = free.Add(time.Second / queueCapacity)
			done := free
			mu.Unlock()
			time.Sleep(time.Until(done))
			fmt.Fprint(w, "hello")
		}))
	})
}
