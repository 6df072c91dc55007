package application

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

const (
	nap = 5 * time.Millisecond

	// hangsAfter is the number of requests that /hangs serves at once, like a cache. Each later
	// request waits for hang, as if an upstream had stopped.
	hangsAfter = 300
	hang       = 200 * time.Millisecond

	// perMicrosecond is the number of steps of burn that take about a microsecond. It is constant,
	// so that every server does the same work.
	perMicrosecond = 575

	// maxIdleConns limits the idle connections to the backend: more than are in use.
	maxIdleConns = 512

	// backendVariable is the environment variable with the URL that /backend calls.
	backendVariable = "BACKEND"
)

const routesName = "routes"

// ListenTCP listens without multipath TCP, as nginx does, with which targets compare.
func ListenTCP(address string) (net.Listener, error) {
	var listening net.ListenConfig
	listening.SetMultipathTCP(false)
	return listening.Listen(context.Background(), "tcp", address)
}

// Routes has handlers that return at once, sleep, compute or call a backend, by path. All send
// Body.
type Routes struct {
	backend string
	client  http.Client
	burnt   atomic.Uint64
	served  atomic.Uint64 // requests for /hangs
}

// NewRoutes returns the handlers.
func NewRoutes() *Routes {
	return &Routes{backend: os.Getenv(backendVariable), client: http.Client{Transport: &http.Transport{
		MaxIdleConns: maxIdleConns, MaxIdleConnsPerHost: maxIdleConns,
	}}}
}

var errNoSuchPath = errors.New("no such path: want /hello, /sleep, /hangs, /burn30, /burn200 or /backend")

// Respond does the work of a path and returns the response's body.
func (s *Routes) Respond(path string) (string, error) {
	switch path {
	case "/hello":
	case "/sleep":
		time.Sleep(nap)
	case "/hangs":
		if s.served.Add(1) > hangsAfter {
			time.Sleep(hang)
		}
	case "/burn30":
		s.burn(30)
	case "/burn200":
		s.burn(200)
	case "/backend":
		return s.callBackend()
	default:
		return "", errNoSuchPath
	}
	return Body, nil
}

// ServeHTTP implements http.Handler.
func (s *Routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := s.Respond(r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, body)
}

// burn uses about that many microseconds of CPU time. Each step needs the result of the one before.
func (s *Routes) burn(microseconds int) {
	x := uint64(microseconds)
	for range microseconds * perMicrosecond {
		x = x*6364136223846793005 + 1442695040888963407
		x ^= x >> 29
	}
	if x == 0 { // never happens, but keeps the compiler from removing the loop
		s.burnt.Add(1)
	}
}

func (s *Routes) callBackend() (string, error) {
	if s.backend == "" {
		return "", errors.New(backendVariable + " is not set: want the backend's URL")
	}
	resp, err := s.client.Get(s.backend)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}
