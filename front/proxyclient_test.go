package front_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// closedByPeer returns a channel that is closed when the peer closes the connection.
func closedByPeer(nc net.Conn) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(io.Discard, nc)
	}()
	return done
}

// A client's departure ends its upstream request, unless IgnoreAbort is set.
func TestClientsDepartureEndsUpstreamRequest(t *testing.T) {
	noLeaks(t)
	for ignore, wait := range map[bool]time.Duration{false: maxWait, true: 300 * time.Millisecond} {
		arrived, left := make(chan bool, 1), make(chan bool, 1)
		to := serve(t, func(w http.ResponseWriter, r *http.Request) {
			arrived <- true
			select {
			case <-r.Context().Done():
				left <- true
			case <-time.After(wait):
				left <- false
			}
		})
		c := proxyTo(conf.Proxy{To: conf.Text(to), IgnoreAbort: ignore})
		name := t.TempDir() + "/log"
		c.LogFormats = []conf.LogFormat{{Name: "s", Text: "$status"}}
		c.Hosts[0].Locations[0].Settings = &conf.Settings{Logs: []conf.Log{{Path: name, Format: "s"}}}
		a := serveHandler(t, newFront(t, c))
		nc, err := net.Dial("unix", a.socket)
		must(t, err)
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		<-arrived
		nc.Close()
		if got := <-left; got == ignore {
			t.Errorf("ignore %v: the upstream's request ended early: %v", ignore, got)
		}
		want := "499\n"
		if ignore {
			want = "200\n"
		}
		if lines := awaitLines(t, name, 1); lines[0]+"\n" != want && lines[0] != want {
			t.Errorf("ignore %v: logged %q", ignore, lines)
		}
	}
}

// A client's body that breaks off or times out results in an error, never in the response to
// another request.
func TestBrokenBodyIsAnError(t *testing.T) {
	noLeaks(t)
	var seen sync.Map
	to := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		seen.Store(r.URL.Path, err == nil)
	})
	for _, stream := range []bool{false, true} {
		c := proxyTo(conf.Proxy{To: conf.Text(to), StreamRequest: stream})
		c.Hosts[0].Locations[0].Settings = &conf.Settings{BodyTimeout: 100 * time.Millisecond}
		a := serveHandler(t, newFront(t, c))
		for path, text := range map[string]string{
			"late":      "POST /late HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n012",
			"late-long": "POST /late-long HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n012",
			"chunks":    "POST /chunks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n01234567\r\n",
		} {
			nc, err := net.Dial("unix", a.socket)
			must(t, err)
			io.WriteString(nc, text)
			_ = nc.SetReadDeadline(time.Now().Add(maxWait))
			resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err == nil && resp.StatusCode < 400 {
				t.Errorf("stream %v, %s: %v", stream, path, resp.Status)
			}
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
				t.Errorf("stream %v, %s: no response", stream, path)
			}
			nc.Close()
			if whole, ok := seen.Load("/" + path); ok && whole.(bool) {
				t.Errorf("stream %v, %s: the upstream took it for whole", stream, path)
			}
		}
	}
}
