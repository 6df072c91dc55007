package shard

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// A listening socket that another process has, too, stays open when this one closes it. The
// connections that wait for the other process do not keep the loops of this one busy.
func TestLoopsSleepAfterSharedListenerIsClosed(t *testing.T) {
	for name, end := range map[string]func(*site){
		"shutdown": func(s *site) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_ = s.server.Shutdown(ctx)
		},
		"listener": func(s *site) { s.listener.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan bool)
			s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					<-release // keeps the shards
				}
				io.WriteString(w, "done")
			})
			other, err := s.listener.(*net.TCPListener).File() // as the child of a graceful restart
			testkit.Must(t, err)
			defer other.Close()
			defer close(release)
			stop := make(chan bool)
			var clients sync.WaitGroup
			s.reachShards()
			post, err := net.Dial("tcp", s.listener.Addr().String())
			testkit.Must(t, err)
			defer post.Close()
			io.WriteString(post, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
			for range 4 {
				clients.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if c, err := net.Dial("tcp", s.listener.Addr().String()); err == nil {
							c.SetDeadline(time.Now().Add(100 * time.Millisecond))
							io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
							c.Read(make([]byte, 1))
							c.Close()
						}
					}
				})
			}
			time.Sleep(100 * time.Millisecond)
			end(s)
			<-s.served
			close(stop)
			clients.Wait()
			turns := func() (n uint32) {
				for _, shard := range s.server.group.allShards() {
					n += shard.turns.Load()
				}
				return n
			}
			before := turns()
			time.Sleep(200 * time.Millisecond)
			if n := turns() - before; n > 100 {
				t.Errorf("the loops have reported events %d times while nothing happened", n)
			}
		})
	}
}
