package engine

import (
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// A deadline of the listener ends Accept also while connections arrive all the time.
func TestDeadlineOfBusyListenerIsNoticed(t *testing.T) {
	var logged lockedText
	s := serveOn(t, tcpListener(t), &http.Server{ErrorLog: log.New(&logged, "", 0)})
	s.reachShards()
	stop := make(chan bool)
	var clients sync.WaitGroup
	defer func() { s.server.Close(); clients.Wait() }()
	defer close(stop)
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", s.listener.Addr().String())
				if err != nil {
					return
				}
				c.(*net.TCPConn).SetLinger(0)
				time.Sleep(time.Millisecond)
				c.Close()
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	if err := s.listener.(*net.TCPListener).SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for logged.text() == "" {
		if time.Since(start) > 5*time.Second {
			t.Fatal("Serve accepts after the deadline of the listener")
		}
		time.Sleep(time.Millisecond)
	}
}
