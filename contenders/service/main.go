// Command service serves like a program that is deployed, restarted and attacked: it takes time to
// start and to respond, and ends in one of several ways.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/upgrade"
)

// Ways in which the program ends on SIGTERM, or is replaced on SIGUSR2.
const (
	kill     = "kill"     // at once, which is the default of a Go program
	shutdown = "shutdown" // after http.Server.Shutdown
	replace  = "upgrade"  // by package upgrade
)

const (
	// largeBytes is the size of the response for slow readers. It exceeds the buffers of a socket.
	largeBytes = 128 << 10
	// maxUpload limits the memory for a request's body.
	maxUpload = 1 << 20

	shutdownTimeout = 10 * time.Second
	// slowClient is the timeout of a request's header section. A body has three times as long.
	slowClient = 5 * time.Second
)

func main() {
	log.SetFlags(0)
	address := flag.String("listen", "", "address to listen on")
	stop := flag.String("stop", kill, "how to end: kill, shutdown or upgrade")
	startup := flag.Duration("startup", 500*time.Millisecond, "time between the start and the first response")
	work := flag.Duration("work", 20*time.Millisecond, "time to wait for each response, as for a database")
	hasTimeouts := flag.Bool("timeouts", false, "set timeouts for slow clients")
	isTare := flag.Bool("tare", false, "serve with tare in place of net/http")
	flag.Parse()
	s := &http.Server{Handler: handler(*work)}
	if *hasTimeouts {
		s.ReadHeaderTimeout, s.ReadTimeout, s.IdleTimeout = slowClient, 3*slowClient, 12*slowClient
	}
	log.Fatal(run(s, *address, *stop, *startup, *isTare))
}

// server is http.Server or tare.Server.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

func run(of *http.Server, address, stop string, startup time.Duration, isTare bool) error {
	var s server = of
	if stop != replace {
		time.Sleep(startup)
		l, err := listen(address)
		if err != nil {
			return err
		}
		if isTare {
			s = tare.Wrap(of)
		}
		return serve(s, l, stop)
	}
	u, err := upgrade.New(upgrade.Options{})
	if err != nil {
		return err
	}
	l, err := u.Listen("tcp", address)
	if err != nil {
		return err
	}
	of.Handler = u.Handler(of.Handler)
	if isTare {
		s = tare.Wrap(of)
	}
	time.Sleep(startup)
	u.Serve(s, l)
	return u.Run(context.Background())
}

// listen returns the socket that the service manager has passed, or a new one.
func listen(address string) (net.Listener, error) {
	const firstPassed = 3 // SD_LISTEN_FDS_START
	if os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) {
		return net.FileListener(os.NewFile(firstPassed, "passed"))
	}
	return net.Listen("tcp", address)
}

// serve serves until the process ends.
func serve(s server, l net.Listener, stop string) error {
	if stop != shutdown {
		return s.Serve(l)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		within, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		ended <- s.Shutdown(within)
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if err := <-ended; err != nil {
		return err
	}
	os.Exit(0)
	return nil
}

// handler responds after the work. It reads a request's body first, into memory.
func handler(work time.Duration) http.Handler {
	large := bytes.Repeat([]byte("Hello World\n"), largeBytes/len("Hello World\n"))
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpload)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(work)
		_, _ = io.WriteString(w, "Hello World\n")
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(large)))
		_, _ = w.Write(large)
	})
	return mux
}
