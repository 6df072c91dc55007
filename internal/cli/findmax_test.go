package cli_test

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// queueCapacity is how many requests a second helloQueue serves.
const queueCapacity = 500

// helloQueue serves requests one after the other, each for the same time, whatever the machine
// is like. It is called like helloUnix.
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
