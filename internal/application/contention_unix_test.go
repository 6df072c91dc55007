//go:build unix

package application_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/load"
)

// BenchmarkContention serves requests with more and more threads, and reports how often goroutines
// and threads wait for a lock of the server and for one of the runtime, in 1000 requests. With more
// threads than cores, how long they wait depends on when the kernel resumes the thread that holds
// the lock, and tells nothing about the lock. Server and load generator share the process, so the
// generator's locks count as the runtime's.
func BenchmarkContention(b *testing.B) {
	for _, procs := range []int{2, 16, 64} {
		b.Run(fmt.Sprintf("GOMAXPROCS=%d", procs), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			addr := serveHello(b)
			defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
			for b.Loop() {
				before, spentBefore := lockWaits(), ownCPU(b)
				result, err := load.Run(context.Background(), load.Plan{
					URL: "http://" + addr + "/", Connections: 256, Threads: 2, Duration: 3 * time.Second,
				})
				if err != nil {
					b.Fatal(err)
				}
				if n := result.Errors.Total(); n > 0 {
					b.Fatalf("%d requests failed", n)
				}
				after, requests := lockWaits(), float64(result.Requests)
				b.ReportMetric(float64(after.server-before.server)/requests*1000, "server-waits/1000")
				b.ReportMetric(float64(after.other-before.other)/requests*1000, "runtime-waits/1000")
				b.ReportMetric(float64((ownCPU(b)-spentBefore).Microseconds())/requests, "cpu-µs/req")
				b.ReportMetric(result.PerSecond(), "req/s")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// serveHello starts a server in this process and returns its address.
func serveHello(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := tare.Wrap(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "Hello World\n")
	})})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	b.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	return l.Addr().String()
}

// waits counts how often goroutines and threads have waited for locks.
type waits struct {
	server int64 // for locks of the server
	other  int64 // for others, most of which are the runtime's
}

// lockWaits returns the waits of this process that have been recorded.
func lockWaits() (w waits) {
	records := make([]runtime.BlockProfileRecord, 0, 1000)
	for {
		n, ok := runtime.MutexProfile(records[:cap(records)])
		if ok {
			records = records[:n]
			break
		}
		records = make([]runtime.BlockProfileRecord, 0, 2*n)
	}
	for _, r := range records {
		if isServerStack(r.Stack()) {
			w.server += r.Count
		} else {
			w.other += r.Count
		}
	}
	return w
}

// isServerStack reports whether a lock was held by code of the server.
func isServerStack(stack []uintptr) bool {
	for frames := runtime.CallersFrames(stack); ; {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "github.com/tarehq/tare/internal/") {
			return true
		}
		if !more {
			return false
		}
	}
}

// ownCPU returns the CPU time of this process.
func ownCPU(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
