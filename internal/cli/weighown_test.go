package cli_test

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// ownServer is an example of a user's own application. It serves "hello" correctly or with a given
// fault. It takes a millisecond for a response, as with a database, so that a load leaves the
// processors to other tests.
func ownServer() {
	addr := flag.String("addr", "", "address to listen on")
	socket := flag.String("unix", "", "unix socket to listen on")
	overFastCGI := flag.Bool("fcgi", false, "speak FastCGI")
	burn := flag.Duration("burn", 0, "CPU time of a request")
	fault := flag.String("fault", "", "what is wrong")
	name := flag.String("name", "", "what the test knows it by")
	flag.Parse()
	switch *fault {
	case "exits":
		fmt.Println("cannot find my configuration")
		os.Exit(3)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "late":
		time.Sleep(1100 * time.Millisecond)
	case "elsewhere":
		*addr = "127.0.0.1:0"
	case "forks":
		inBackground("server", "-name", *name, "-addr", *addr)
		syscall.Exit(0) // at once: os.Exit has the race detector wait for a second
	case "child":
		inBackground("sleep", "62")
	}
	if *addr != "" {
		go serveOwn("tcp", *addr, *overFastCGI, ownHandler(*fault, *burn))
	}
	if *socket != "" {
		go serveOwn("unix", *socket, *overFastCGI, ownHandler(*fault, *burn))
	}
	select {}
}

// inBackground starts a program in its own session.
func inBackground(words ...string) {
	c := exec.Command(words[0], words[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		panic(err)
	}
}

func serveOwn(network, address string, overFastCGI bool, h http.Handler) {
	l, err := net.Listen(network, address)
	if err == nil && overFastCGI {
		err = fcgi.Serve(l, h)
	} else if err == nil {
		err = http.Serve(l, h)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func ownHandler(fault string, burn time.Duration) http.Handler {
	var requested atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for began := processorTime(); burn > 0 && processorTime()-began < burn; {
		}
		time.Sleep(time.Millisecond)
		n, body := requested.Add(1), "hello"
		switch {
		case fault == "dies" && n > 20:
			syscall.Exit(9)
		case fault == "garbles" && n > 20:
			body = "hallo"
		case fault == "changes":
			body = fmt.Sprint("hello ", os.Getpid(), " ", n)
		case fault == "goodbye" || fault == "lies" && r.Header.Get("X-Forwarded-For") != "":
			body = "goodbye"
		case fault == "closes":
			w.Header().Set("Connection", "close")
		case fault == "field":
			w.Header().Set("X-Number", fmt.Sprint(os.Getpid(), n))
		case r.URL.Path == "/missing":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Path == "/env":
			body = os.Getenv("GREETING") + r.Host
		case r.URL.Path == "/file":
			b, _ := os.ReadFile("greeting.txt")
			body = strings.TrimSpace(string(b))
		}
		fmt.Fprint(w, body)
	})
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
