package bench_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/trial"
)

// isInBlocks reports whether a case is measured as the lab measures: in blocks, side by side.
func (s scenario) isInBlocks() bool {
	return s.measure == nil && len(s.scene.streams) == 1 && !s.scene.backend && !s.scene.streams[0].oneShard
}

// compareBlocks runs a case in blocks and compares its servers.
func (f *field) compareBlocks(s scenario, failed func(string)) []row {
	records, counts, err := f.blocks(s)
	if err != nil {
		failed(fmt.Sprintf("%s: %v", s.name, err))
	}
	var rows []row
	for _, b := range s.bounds {
		source := records
		if isCounted(b.of) {
			source = counts
		}
		of, than := source[s.mine()], source[b.than]
		mine, theirs := byStart(of, b.of), byStart(than, b.of)
		rows = append(rows, rowOf(s, b, mine, theirs, func() stat.Interval {
			return ratio(b.of, of, than, mine, theirs)
		}))
	}
	return rows
}

// ratio compares a metric of two servers. Latencies and counts have one value for each start.
func ratio(metric string, of, than []*sample.Record, mine, theirs stat.Starts) stat.Interval {
	switch metric {
	case cpu:
		return analyze.Weights(of, than, analyze.Weight).Interval
	case appCPU:
		return analyze.Weights(of, than, func(s *sample.Slice) float64 {
			return s.WeightUs(contender.RoleApplication)
		}).Interval
	case frontCPU:
		return analyze.Weights(of, than, func(s *sample.Slice) float64 {
			return s.WeightUs(contender.RoleNginx) + s.WeightUs(contender.RoleFront)
		}).Interval
	case rate:
		return analyze.Rates(of, than).Interval
	case sent: // all responses of a case have the same body
		w := analyze.Weights(of, than, analyze.Weight).Interval
		return stat.Interval{Lo: 1 / w.Hi, Mid: 1 / w.Mid, Hi: 1 / w.Lo}
	}
	return stat.Ratios(mine, theirs).Interval
}

// byStart returns a metric of each start; NaN for one that failed.
func byStart(records []*sample.Record, metric string) stat.Starts {
	all := make(stat.Starts, len(records))
	for i, r := range records {
		all[i] = []float64{math.NaN()}
		if r != nil {
			all[i][0] = figure(r, metric)
		}
	}
	return all
}

func figure(r *sample.Record, metric string) float64 {
	us := func(role string) float64 {
		user, sys := r.CPUUsPerRequest(role)
		return user + sys
	}
	switch metric {
	case cpu:
		return r.WeightUs()
	case appCPU:
		return us(contender.RoleApplication)
	case frontCPU:
		return us(contender.RoleNginx) + us(contender.RoleFront)
	case rate:
		return r.Load.PerSecond()
	case sent:
		return float64(r.Load.Bytes) / float64(r.Load.Requests) / r.WeightUs() * 1e6
	case p50:
		return micros(r.Load.Latency.Quantile(0.5))
	case p99:
		return micros(r.Load.Latency.Quantile(0.99))
	case calls, transfers:
		return perRequest(r, metric == transfers)
	}
	panic("bench: BUG: blocks have no metric " + metric)
}

// isCounted reports whether a metric is counted by the kernel, in trials of its own.
func isCounted(metric string) bool { return metric == calls || metric == transfers }

// perRequest returns the application's system calls per request, or those that read or write.
func perRequest(r *sample.Record, transfers bool) float64 {
	moving := []string{"read", "readv", "recvfrom", "recvmsg", "write", "writev", "sendto", "sendmsg"}
	total := 0.0
	for name, n := range r.Attribution.Calls[contender.RoleApplication] {
		if !transfers || slices.Contains(moving, name) {
			total += float64(n)
		}
	}
	return total / float64(r.Load.Requests)
}

// blocks runs the blocks of a case. For each server it returns the record of each block, nil if the
// server failed, and the records of trials in which the kernel counts, if a target needs them.
func (f *field) blocks(s scenario) (records, counts map[string][]*sample.Record, err error) {
	stage, err := contender.NewStage(contender.StageOptions{})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	bench, err := f.bench(s, stage)
	if err != nil {
		return nil, nil, err
	}
	st := s.scene.streams[0]
	condition := sample.Condition{Cores: s.scene.cores, Connections: st.connections, Rate: st.rate}
	var members []trial.Member
	for _, server := range s.servers() {
		members = append(members, trial.Member{Name: server, Contender: f.contender(server)})
	}
	records, counts = make(map[string][]*sample.Record), make(map[string][]*sample.Record)
	alone := make(map[string]string)
	var failures []error
	for n, starts := 1, f.starts; n <= starts; n++ {
		done, err := bench.Block(context.Background(), trial.Block{
			Number: n, Condition: condition, Members: members, Together: true, Alone: alone, Seed: uint64(n),
		})
		if err != nil {
			return nil, nil, err
		}
		for i := range done {
			failures = append(failures, add(records, &done[i]))
			if why := done[i].StaysAlone(); why != "" {
				alone[done[i].Contender] = why
				starts = max(starts, f.rounds) // an interval of whole trials needs more of them
			}
		}
		counted, err := f.count(bench, s, members, trial.Slot{Block: n, Condition: condition})
		if err != nil {
			return nil, nil, err
		}
		for i := range counted {
			failures = append(failures, add(counts, &counted[i]))
		}
	}
	return records, counts, errors.Join(failures...)
}

// add adds a record of the next block, or nil and an error if the server failed or a response was
// wrong.
func add(to map[string][]*sample.Record, r *sample.Record) error {
	err := errors.New(r.Failure)
	if r.Failure == "" {
		if err = faultless(r.Load); err == nil {
			to[r.Contender] = append(to[r.Contender], r)
			return nil
		}
	}
	to[r.Contender] = append(to[r.Contender], nil)
	return fmt.Errorf("%s: %w", r.Contender, err)
}

// count counts the system calls of the servers that targets of counts are about.
func (f *field) count(bench *trial.Bench, s scenario, members []trial.Member,
	slot trial.Slot) ([]sample.Record, error) {
	var all []sample.Record
	var servers []string
	for _, b := range s.bounds {
		if isCounted(b.of) {
			servers = append(servers, s.mine(), b.than)
		}
	}
	for _, m := range members {
		if !f.counts || !slices.Contains(servers, m.Name) {
			continue
		}
		slot.Contender = m.Name
		records, err := bench.Attribute(context.Background(), m.Contender, slot)
		if err != nil {
			return nil, err
		}
		all = append(all, records[0])
	}
	return all, nil
}

// bench returns the bench of a case.
func (f *field) bench(s scenario, stage *contender.Stage) (*trial.Bench, error) {
	st := s.scene.streams[0]
	path, want, err := f.expected(s.mine(), st.path)
	b := &trial.Bench{
		Stage: stage, CPUs: f.cpus, Conf: f.proxy, Warmup: f.warmup, Measure: f.load, Statuses: []int{http.StatusOK},
		Bodies: map[string][]byte{"": want},
		Request: equal.Request{
			Method: http.MethodGet, Path: path, Host: host, Header: st.header, PerConnection: st.ends,
		},
	}
	if strings.Contains(st.path, "{{") { // each path has its own body
		b.Template, b.Bodies = st.path, nil
	}
	return b, err
}
