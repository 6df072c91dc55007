package front_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// A client that stops sending its body is disconnected without a response, as by nginx.
func TestStalledBodyTimesOut(t *testing.T) {
	const timeout = time.Second
	synctest.Test(t, func(t *testing.T) {
		conn := inMemory(t, conf.Settings{BodyTimeout: timeout}, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the handler gets %v", err)
			}
			fmt.Fprint(w, "too late")
		})
		began := time.Now()
		fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
		received, err := io.ReadAll(conn)
		if took := time.Since(began); len(received) > 0 || err != nil || took != timeout {
			t.Errorf("%q, %v after %v", received, err, took)
		}
	})
	// Neither later requests nor slow handlers are affected.
	synctest.Test(t, func(t *testing.T) {
		conn := inMemory(t, conf.Settings{BodyTimeout: timeout}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			select {
			case <-r.Context().Done():
				t.Error("the request has ended")
			case <-time.After(3 * timeout):
			}
			fmt.Fprint(w, "ok")
		})
		in := bufio.NewReader(conn)
		for range 2 {
			fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
			resp, err := http.ReadResponse(in, nil)
			must(t, err)
			if b, err := io.ReadAll(resp.Body); string(b) != "ok" || err != nil {
				t.Errorf("%d, %q, %v", resp.StatusCode, b, err)
			}
		}
	})
}

// A client that reads nothing of a long response times out; one that reads slowly does not.
func TestStalledReaderTimesOut(t *testing.T) {
	const timeout = time.Second
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		conn := inMemory(t, conf.Settings{SendTimeout: timeout}, func(w http.ResponseWriter, _ *http.Request) {
			var err error
			for err == nil {
				_, err = w.Write(make([]byte, 8<<20))
			}
			failed <- err
		})
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		for range 20 {
			if _, err := io.ReadFull(conn, make([]byte, 256<<10)); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-failed:
				t.Fatalf("while the client reads: %v", err)
			case <-time.After(timeout / 2):
			}
		}
		stopped := time.Now()
		if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(stopped) > timeout {
			t.Errorf("%v after %v", err, time.Since(stopped))
		}
	})
}

// inMemory serves a bound handler with settings in fake time, and returns a connection to it.
func inMemory(t *testing.T, s conf.Settings, h http.HandlerFunc) net.Conn {
	t.Helper()
	var network testkit.Network
	f := inFakeTime(t, oneHost(app(s)), h)
	server := &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0)}
	l := network.Listen()
	go func() { _ = server.Serve(l) }()
	conn, err := network.Dial()
	must(t, err)
	t.Cleanup(func() {
		conn.Close()
		_ = server.Close()
		synctest.Wait()
		must(t, f.Close())
	})
	return conn
}

// The rate is nginx's: the same number of bytes in the first second and in each following one.
func TestRateIsNginxs(t *testing.T) {
	for _, c := range []struct {
		rate, after conf.Text
		bytes       int
		want        time.Duration
	}{
		{"1k", "", 1024, 0}, {"1k", "", 1025, time.Second}, {"1k", "", 5 * 1024, 4 * time.Second},
		{"1k", "4k", 5 * 1024, 0},
		{"1k", "3k", 5 * 1024, time.Second}, {"0", "", 1 << 20, 0}, {"$arg_rate", "", 2048, time.Second},
	} {
		for _, copied := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := inFakeTime(t, oneHost(app(conf.Settings{Rate: c.rate, RateAfter: c.after})),
					func(w http.ResponseWriter, _ *http.Request) {
						if copied {
							_, _ = io.Copy(w, io.LimitReader(zeros{}, int64(c.bytes)))
						} else {
							_, _ = w.Write(make([]byte, c.bytes))
						}
					})
				start := time.Now()
				if w := serveInMemory(t.Context(), f, "/?rate=1k"); w.body.Len() != c.bytes ||
					time.Since(start) != c.want {
					t.Errorf("%+v, %v: %d bytes in %v", c, copied, w.body.Len(), time.Since(start))
				}
				_ = f.Close()
			})
		}
	}
}

// An invalid rate of the application does not change the rate.
func TestInvalidRateIsIgnored(t *testing.T) {
	for rate, want := range map[string]time.Duration{"fast": 3 * time.Second, "-1": 3 * time.Second,
		"": 3 * time.Second, "2k": time.Second, "0": 0} {
		synctest.Test(t, func(t *testing.T) {
			f := inFakeTime(t, oneHost(app(conf.Settings{Rate: "1k"})), func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Accel-Limit-Rate", rate)
				_, _ = w.Write(make([]byte, 4*1024))
			})
			start := time.Now()
			if serveInMemory(t.Context(), f, "/"); time.Since(start) != want {
				t.Errorf("%q: %v, want %v", rate, time.Since(start), want)
			}
			_ = f.Close()
		})
	}
}

// Close waits for requests of earlier Configs, too.
func TestCloseWaitsForEarlierConfigs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, finish := oneHost(app(conf.Settings{})), make(chan struct{})
		f := inFakeTime(t, c, func(http.ResponseWriter, *http.Request) { <-finish })
		go serveInMemory(t.Context(), f, "/")
		synctest.Wait()
		must(t, f.Reload(c))
		closed := make(chan error, 1)
		go func() { closed <- f.Close() }()
		if synctest.Wait(); len(closed) > 0 {
			t.Error("Close has returned before a request has ended")
		}
		close(finish)
		must(t, <-closed)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
