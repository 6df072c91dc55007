package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/load"
)

// turn holds the figures of one turn of a server, by metric.
type turn map[string]float64

// scene is a server under load.
type scene struct {
	cores   int // 1: the server and the generator use different processors
	backend bool
	streams []stream
}

// stream is a run of the generator. The streams of a scene run at the same time.
type stream struct {
	name        string // prefix of its metrics
	path        string
	connections int
	rate        float64  // 0 is a closed loop
	header      []string // fields; only in blocks
	oneShard    bool     // busy connections alternate with idle ones
	ends        int      // number of requests after which a connection ends; 0 is never; only in blocks
}

const patience = 30 * time.Second

func (s scene) measure(f *field, server string) (values turn, err error) {
	var flags []string
	if s.backend {
		b, err := f.start(nginx, f.generator, "/")
		if err != nil {
			return nil, err
		}
		defer b.stop()
		flags = []string{"-backend", "http://" + b.Address + "/"}
	}
	var cpus []int
	if s.cores == 1 {
		cpus = f.server
	}
	r, err := f.start(server, cpus, s.streams[0].path, flags...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return s.load(f, r)
}

// load runs all streams at once.
func (s scene) load(f *field, r *running) (turn, error) {
	results, errs := make([]*load.Result, len(s.streams)), make([]error, len(s.streams))
	var all sync.WaitGroup
	for i, st := range s.streams {
		p := s.plan(f, st, r.Address)
		all.Go(func() { results[i], errs[i] = load.Run(context.Background(), p) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	values := make(turn)
	for i, result := range results {
		name := s.streams[i].name
		if err := faultless(result); err != nil {
			return nil, err
		}
		values[name+rate] = result.PerSecond()
		values[name+p50] = micros(result.Latency.Quantile(0.5))
		values[name+p99] = micros(result.Latency.Quantile(0.99))
	}
	return values, nil
}

func (s scene) plan(f *field, st stream, address string) load.Plan {
	p := load.Plan{
		URL: "http://" + address + st.path, Connections: st.connections,
		Warmup: f.warmup, Duration: f.load, Timeout: patience, Threads: min(len(f.cpus), st.connections),
	}
	if st.rate > 0 {
		p.Pace = load.Constant(st.rate)
	}
	if s.cores == 1 {
		p.CPUs, p.Threads = f.generator, min(len(f.generator), st.connections)
	}
	if st.oneShard { // a single thread opens connections in a known order
		p.Threads, p.Spare = 1, len(f.cpus)-1
	}
	return p
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// usage is a server's CPU time so far, and its memory.
type usage struct {
	cpu time.Duration
	rss int64
	err error
}

func (l *usage) read(r *running) {
	*l = usage{}
	usages, err := r.Usages()
	l.err = err
	for _, usages := range usages {
		for _, c := range proc.Costs(nil, usages) {
			l.cpu += c.CPU()
			l.rss += c.RSS
		}
	}
}

// overTLS loads a server with wrk, whose TLS library differs from that of the servers. The measured
// CPU time includes the handshakes.
func overTLS(f *field, server string) (values turn, err error) {
	r, err := f.start(server, f.server, "/hello", "-tls")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return f.loadByWrk(r, "https://"+r.Address+"/hello")
}

// loadByWrk requests a URL on 64 connections.
func (f *field) loadByWrk(r *running, url string) (values turn, err error) {
	seconds := max(1, int(f.load.Seconds()))
	ctx, cancel := context.WithTimeout(context.Background(), f.load+patience)
	defer cancel()
	c := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(f.generator[0]), f.wrk, "-t1", "-c64",
		fmt.Sprintf("-d%ds", seconds), url)
	c.Env = slices.Concat(os.Environ(), f.wrkEnv)
	var before, after usage
	before.read(r)
	out, err := c.CombinedOutput()
	after.read(r)
	if err := errors.Join(err, before.err, after.err); err != nil {
		return nil, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	m := regexp.MustCompile(`(\d+) requests in`).FindSubmatch(out)
	if m == nil || bytes.Contains(out, []byte("Socket errors")) || bytes.Contains(out, []byte("Non-2xx")) {
		return nil, fmt.Errorf("wrk: unexpected report:\n%s", out)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err == nil && n == 0 {
		err = errors.New("wrk: no response in the time")
	}
	return turn{cpu: micros(after.cpu-before.cpu) / n}, err
}

// workload is a workload in memory.
type workload struct {
	procs             int
	method            string
	requests, clients int
}

func (w workload) measure(f *field, server string) (turn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, f.inMemory, "-server", server, "-method", w.method,
		"-requests", strconv.Itoa(w.requests), "-clients", strconv.Itoa(w.clients), "-for", f.inMemFor.String())
	c.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", w.procs))
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, out)
	}
	figure, _, _ := strings.Cut(string(out), " ")
	ns, err := strconv.ParseFloat(figure, 64)
	return turn{spent: ns}, err
}

// idle measures a server's memory while it has many connections that were used once.
func idle(f *field, server string) (values turn, err error) {
	r, err := f.start(server, nil, "/hello")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	var atRest, full, later usage
	time.Sleep(f.settle)
	atRest.read(r)
	release, err := hold(r.Address, crowd)
	defer release()
	if err != nil {
		return nil, err
	}
	time.Sleep(f.settle)
	full.read(r)
	values = turn{memory: float64(full.rss-atRest.rss) / crowd}
	if server == ours {
		time.Sleep(f.idle)
		later.read(r)
		values[resting] = 100 * float64(later.cpu-full.cpu) / float64(f.idle)
	}
	return values, errors.Join(atRest.err, full.err, later.err)
}

// hold opens connections, sends one request on each, and keeps them open.
func hold(address string, n int) (release func(), err error) {
	var held []net.Conn
	release = func() {
		for _, c := range held {
			_ = c.(*net.TCPConn).SetLinger(0) // no port is kept in TIME_WAIT
			c.Close()
		}
	}
	request := fmt.Appendf(nil, "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n", address)
	response := make([]byte, 4<<10)
	for range n {
		c, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			return release, err
		}
		held = append(held, c)
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			return release, err
		}
		if _, err := c.Write(request); err != nil {
			return release, err
		}
		for got := 0; !bytes.HasSuffix(response[:got], []byte(body)); {
			n, err := c.Read(response[got:])
			if err != nil {
				return release, fmt.Errorf("after %q: %w", response[:got], err)
			}
			got += n
		}
	}
	return release, nil
}
