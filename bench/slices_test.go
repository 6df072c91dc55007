package bench_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/trial"
	"github.com/tarehq/tare/load"
)

const (
	// slicedStarts is how often the servers of a case start if they run side by side.
	slicedStarts = 8
	// sliceLength is the length of a server's turn then.
	sliceLength = 200 * time.Millisecond
)

// turns is a server that runs beside others, with its connections.
type turns struct {
	server  string
	running *running
	session *load.Session
	samples []sample
}

// takesTurns reports whether the servers of a case can run at the same time: each has one stream,
// and this process may open that many connections.
func (s scenario) takesTurns() bool {
	if s.measure != nil || len(s.scene.streams) != 1 || s.scene.backend {
		return false
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return false
	}
	return uint64(len(s.servers())*s.scene.streams[0].connections+trial.SpareFiles) <= limit.Cur
}

// inTurns starts all servers of a case and loads them in turns. For each server it returns a sample
// of each round.
func (s scene) inTurns(f *field, servers []string) (samples map[string][]sample, err error) {
	var up []*turns
	defer func() {
		for _, u := range up {
			u.session.Close()
			err = errors.Join(err, u.running.stop())
		}
	}()
	for _, server := range servers {
		u, err := s.open(f, server)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", server, err)
		}
		up = append(up, u)
	}
	for range max(1, int(f.load/sliceLength)) {
		for _, i := range rand.Perm(len(up)) {
			if err := up[i].turn(); err != nil {
				return nil, fmt.Errorf("%s: %w", up[i].server, err)
			}
		}
	}
	samples = make(map[string][]sample)
	for _, u := range up {
		if err := u.end(); err != nil {
			return nil, fmt.Errorf("%s: %w", u.server, err)
		}
		samples[u.server] = u.samples
	}
	return samples, nil
}

// open starts a server, connects to it and warms it up.
func (s scene) open(f *field, server string) (*turns, error) {
	var cpus []int
	if s.cores == 1 {
		cpus = f.server
	}
	r, err := f.start(server, cpus, s.streams[0].path)
	if err != nil {
		return nil, err
	}
	plan := s.plan(f, s.streams[0], r.Address)
	session, err := load.Open(context.Background(), plan)
	if err == nil {
		_, err = session.Slice(context.Background(), f.warmup, false)
		if err != nil {
			session.Close()
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return &turns{server: server, running: r, session: session}, nil
}

// turn loads the server for a slice.
func (u *turns) turn() error {
	var before, after look
	before.take(u.running)
	got, err := u.session.Slice(context.Background(), sliceLength, true)
	after.take(u.running)
	if err := errors.Join(err, before.err, after.err); err != nil {
		return err
	}
	if got.Requests == 0 {
		return errors.New("no response in a slice")
	}
	each := func(spent time.Duration) float64 { return micros(spent) / float64(got.Requests) }
	front := after.roles[contender.RoleNginx] + after.roles[contender.RoleFront] -
		before.roles[contender.RoleNginx] - before.roles[contender.RoleFront]
	u.samples = append(u.samples, sample{
		cpu: each(after.cpu - before.cpu), rate: float64(got.Requests) / got.Took.Seconds(), frontCPU: each(front),
		appCPU: each(after.roles[contender.RoleApplication] - before.roles[contender.RoleApplication]),
	})
	return nil
}

// end adds the metrics of a whole start to its first sample.
func (u *turns) end() error {
	result := u.session.Close()
	if err := faultless(result); err != nil {
		return err
	}
	bytes := float64(result.Bytes) / float64(result.Requests)
	for _, s := range u.samples {
		s[sent] = bytes / s[cpu] * 1e6
	}
	u.samples[0][p50] = micros(result.Latency.Quantile(0.5))
	u.samples[0][p99] = micros(result.Latency.Quantile(0.99))
	return nil
}
