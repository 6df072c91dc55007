package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/proc"
	"github.com/tarehq/tare/load"
)

// Block is one start of several contenders that are up at the same time, and are loaded in turns.
type Block struct {
	Number int // from 1
	Condition
	Members []Member
	Control string // the member that has a slice in each heat; "" is nobody
	Seed    uint64 // of the order in which they are started and loaded

	// Turn is told who is loaded next, and at which rate it was the last time; it may be nil.
	Turn func(name string, perSecond float64)
}

// Member is a contender under the name that its records have.
type Member struct {
	Name string
	*contender.Contender
}

const (
	// shortestSlice is how long a slice lasts unless something needs longer. It holds some cycles of a
	// busy program's collector. Measured on a virtual machine whose host was busy, for the same time in
	// all: with 20, 50, 100 and 200 ms the ratio of two equals varied by 0.7, 0.9, 0.9 and 1.6 %. Shorter
	// ones lose more to their beginning and end.
	shortestSlice = 50 * time.Millisecond
	// tickedSlice is that of a contender with a process for each request, whose cost the kernel tells in
	// clock ticks.
	tickedSlice = 200 * time.Millisecond
	// rateSlice is that at a fixed rate. The first requests of a slice take longer: with 50 and 100 ms the 99th
	// percentile was 3 to 4 ms, with 250 and 500 ms 1 to 2 ms, with 2 s 1.6 to 6 ms. The median differed by 4 %,
	// CPU time by 3 %.
	rateSlice = 250 * time.Millisecond
	// longestSlice bounds what follows from drainShare.
	longestSlice = time.Second
	// drainShare is the share of a slice that its end may take, in which responses are awaited, no
	// request begins, and fewer and fewer connections are busy.
	drainShare = 0.2
	// heatSize is how many members besides the control have their slices in a heat, so that the
	// control is within a second of each of them.
	heatSize = 6
	// sleepBound is the share of a processor from which on a contender that is asked nothing is not
	// measured beside others.
	sleepBound = 0.02
	// sleepTime is for how long that is looked at.
	sleepTime = 200 * time.Millisecond
	// spareMemory is the share of the machine's memory that has to stay available.
	spareMemory = 0.1
)

// member is one that takes part in a block.
type member struct {
	Member
	rec     Record
	running *contender.Running
	session *load.Session
	began   map[string][]proc.Usage  // by role, before its first slice
	usages  map[string][]proc.Usage  // now
	lastPID int                      // of the machine, when its processes were looked for
	spent   map[string]time.Duration // by role, in its slices
	own     proc.Sum                 // of this process in them
	length  time.Duration            // of its slices
	rounds  int                      // that it takes part in
	at      time.Time                // of the last look
	rate    float64
}

// Block carries out a block, and returns a record of each member. What cannot be measured beside
// others is measured alone, in a trial as Run makes it, and so is the control, to be compared with it:
// their records say why in Alone. The error is for what goes wrong with the bench, or ctx's.
func (b *Bench) Block(ctx context.Context, k Block) ([]Record, error) {
	s := &side{bench: b, Block: k, random: rand.New(rand.NewPCG(k.Seed, uint64(k.Number)))}
	s.random.Shuffle(len(k.Members), func(i, j int) { k.Members[i], k.Members[j] = k.Members[j], k.Members[i] })
	s.why = make(map[string]string)
	if why := tooManyFiles(&k); why != "" {
		for _, m := range k.Members {
			s.why[m.Name] = why
		}
		return s.apart(ctx)
	}
	err := s.measure(ctx)
	if stopErr := s.stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		return nil, err
	}
	for _, m := range s.up {
		s.records = append(s.records, m.rec)
	}
	return s.apart(ctx)
}

// side is a block under way.
type side struct {
	Block
	bench     *Bench
	random    *rand.Rand
	generator []int // processors
	probe     *probe
	known     time.Duration // that members and this process have used, as far as it was looked at
	up        []*member
	records   []Record          // of those who are not up, or not any more
	why       map[string]string // by name, of those who are to be measured alone
}

// SpareFiles is how many files this process opens besides connections, amply.
const SpareFiles = 100

// tooManyFiles says why the generator cannot hold all connections of a block at once.
func tooManyFiles(k *Block) string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return ""
	}
	if need := len(k.Members) * k.Connections; uint64(need+SpareFiles) > limit.Cur {
		return fmt.Sprintf("%d contenders with %d connections each need %d open files, and a process may have %d here", len(k.Members), k.Connections, need+SpareFiles, limit.Cur)
	}
	return ""
}

// measure starts all members, and visits them in slices.
func (s *side) measure(ctx context.Context) error {
	restore, generator, err := s.bench.moveAside(s.Condition)
	if err != nil {
		return err
	}
	defer restore()
	s.generator = generator
	servers, _ := Layout(s.bench.CPUs, s.Cores)
	if s.probe, err = newProbe(servers); err != nil {
		return err
	}
	defer s.probe.close()
	for _, m := range s.Members {
		if err := s.start(ctx, m); err != nil {
			return err
		}
	}
	for _, m := range s.up {
		if err := s.warm(ctx, m); err != nil {
			return err
		}
	}
	if err := s.sendAway(); err != nil {
		return err
	}
	for round := 1; ; round++ {
		more, err := s.round(ctx, round)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	for _, m := range s.up {
		if err := m.finish(); err != nil {
			return err
		}
	}
	return nil
}

// start starts a member and connects to it.
func (s *side) start(ctx context.Context, of Member) error {
	m := &member{Member: of, spent: make(map[string]time.Duration)}
	m.rec = Record{Block: s.Number, Condition: s.Condition, Contender: of.Name, Start: time.Now(), Costs: make(map[string][]proc.Cost)}
	if free := proc.MemoryAvailable(); free > 0 && float64(free) < spareMemory*float64(proc.MemoryTotal()) {
		s.why[of.Name] = "the machine's memory does not hold all contenders at once"
		return nil
	}
	var err error
	m.running, err = s.bench.Stage.Start(ctx, of.Contender, s.bench.Setting(s.Condition), s.bench.Ready(of.Contender))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		m.rec.Failure = err.Error()
		s.records = append(s.records, m.rec)
		return nil
	}
	s.up = append(s.up, m)
	plan := s.bench.plan(m.running.Place(), s.Condition, s.generator)
	m.session, err = load.Open(ctx, plan)
	var unreached *load.ConnectError
	if errors.As(err, &unreached) {
		m.rec.Failure = m.died(err.Error())
		return nil
	}
	return err
}

// died returns why a member's processes have ended, or what else went wrong.
func (m *member) died(otherwise string) string {
	select {
	case <-m.running.Dead():
		return m.running.WhyDead().Error()
	default:
		return otherwise
	}
}

// warm loads a member for a time that is not counted, and sees how long its slices have to be.
func (s *side) warm(ctx context.Context, m *member) error {
	if m.rec.Failure != "" {
		return nil
	}
	s.tell(m)
	slice, err := m.session.Slice(ctx, max(s.bench.Warmup, 1), false)
	if err != nil {
		return err
	}
	m.rate = float64(slice.Requests) / slice.Took.Seconds()
	if err = m.lookAgain(); err != nil {
		return err
	}
	m.began = m.usages
	least := shortestSlice
	switch {
	case !s.Saturated():
		least = rateSlice
	case m.hadChildren():
		least = tickedSlice
	}
	m.length = min(max(least, time.Duration(float64(slice.Drained)/drainShare)), max(least, longestSlice), s.bench.Measure)
	m.rounds = max(1, int(s.bench.Measure.Seconds()/m.length.Seconds()+0.5))
	return nil
}

// hadChildren reports whether a process of the contender has waited for others to end.
func (m *member) hadChildren() bool {
	for _, usages := range m.usages {
		for _, u := range usages {
			if u.EndedUser+u.EndedSys > 0 {
				return true
			}
		}
	}
	return false
}

func (s *side) tell(m *member) {
	if s.Turn != nil {
		s.Turn(m.Name, m.rate)
	}
}

// sendAway stops those who do not sleep although nothing is asked of them.
func (s *side) sendAway() error {
	time.Sleep(sleepTime)
	for _, m := range s.up {
		if m.rec.Failure != "" {
			continue
		}
		if err := s.seeAsleep(m); err != nil {
			return err
		}
		if share := m.rec.Asleep.Share(); share > sleepBound {
			s.why[m.Name] = fmt.Sprintf("it uses %.0f %% of a processor while nothing is asked of it", 100*share)
		}
	}
	if s.why[s.Control] != "" {
		for _, m := range s.up {
			s.why[m.Name] = cmp.Or(s.why[m.Name], "the control does not sleep: "+s.why[s.Control])
		}
	}
	var staying []*member
	for _, m := range s.up {
		if s.why[m.Name] == "" {
			staying = append(staying, m)
		} else if err := m.stop(); err != nil {
			return err
		}
	}
	s.up = staying
	return nil
}

// stop closes a member's connections and ends its processes.
func (m *member) stop() error {
	if m.session != nil {
		m.session.Close()
	}
	if err := m.running.Stop(); err != nil {
		return fmt.Errorf("%s: stop: %w", m.Contender.Name, err)
	}
	return nil
}

func (s *side) stop() (err error) {
	for _, m := range s.up {
		err = errors.Join(err, m.stop())
	}
	return err
}

// apart measures alone those for whom there is a reason to, and the control.
func (s *side) apart(ctx context.Context) ([]Record, error) {
	if len(s.why) == 0 {
		return s.records, nil
	}
	for _, m := range s.Members {
		why := s.why[m.Name]
		if why == "" && m.Name == s.Control {
			why = "to be compared with those that are"
		}
		if why == "" {
			continue
		}
		s.tell(&member{Member: m})
		rec, err := s.bench.run(ctx, m.Contender, Slot{Block: s.Number, Condition: s.Condition, Contender: m.Name}, nil)
		if err != nil {
			return nil, err
		}
		rec.Alone = why
		s.records = append(s.records, rec)
	}
	return s.records, nil
}

// fault says what a result shows to be wrong with a contender; nothing if it can be compared.
func fault(result *load.Result, otherwise string) string {
	switch {
	case result.Requests == 0:
		return "no response under load: " + cmp.Or(result.Errors.First, otherwise)
	case float64(wrong(result)) >= wrongBound*float64(result.Requests):
		return fmt.Sprintf("answers otherwise under load: %d of %d responses were not what it answers when it is asked alone; the first error: %s",
			wrong(result), result.Requests, result.Errors.First)
	}
	return ""
}

// wrongBound is from which share of wrong responses on a contender is not the one that was
// compared with the control. Fewer are told as errors.
const wrongBound = 0.001

// wrong is how many responses were others than expected. That a front could not reach what is
// behind it, or that a server had too much to do, is said by status, and is an error of another kind.
func wrong(r *load.Result) uint64 {
	status := r.Errors.Status
	for _, code := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		status -= min(status, r.Statuses[code])
	}
	return status + r.Errors.Body + r.Errors.Header
}
