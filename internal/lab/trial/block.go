package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/load"
)

const (
	// shortestSlice is the length of a slice unless a member needs longer ones. It holds several
	// cycles of a busy Go program's collector. On a virtual machine whose host was busy, the ratio
	// of two equal contenders varied by 0.7, 0.9, 0.9 and 1.6 % with slices of 20, 50, 100 and 200
	// ms, in the same time in all. Shorter ones lose more to their beginning and end.
	shortestSlice = 50 * time.Millisecond
	// tickedSlice is the length for a contender that runs a process for each request. The kernel
	// reports the CPU time of ended processes in clock ticks.
	tickedSlice = 200 * time.Millisecond
	// rateSlice is the length at a fixed rate. The first requests of a slice take longer: with 50
	// and 100 ms the 99th percentile was 3 to 4 ms, with 250 and 500 ms 1 to 2 ms, with 2 s 1.6 to
	// 6 ms. The median differed by 4 %, CPU time by 3 %.
	rateSlice   = 250 * time.Millisecond
	dueRequests = 50 // minimum number of requests that are due in a slice at a fixed rate
	// longestSlice bounds what follows from drainShare.
	longestSlice = time.Second
	fewestRounds = 4 // number of rounds that a start has even if its slices end slowly
	// drainShare is the share of a slice that its end may take, when no request begins and fewer
	// and fewer connections are busy.
	drainShare = 0.2
	// sleepBound is the share of a CPU above which a contender that receives no request is not
	// measured beside others.
	sleepBound = 0.02
	// sleepTime is how long that is measured.
	sleepTime   = 200 * time.Millisecond
	deathTime   = 5 * time.Second // how long a process that has closed its connections may take to end
	spareMemory = 0.1             // share of the machine's memory that has to stay available
)

// Block is one start of several contenders, which run at the same time and are loaded in turns.
type Block struct {
	Number int // from 1
	sample.Condition
	Members []Member
	Control string // the member that the others are compared with; "" if there is none
	Seed    uint64 // of the order in which members are started and loaded

	Measure time.Duration // the load of each member; 0 is the bench's

	// Together measures all members alone if one of them is.
	Together bool

	// Turn is called before each turn with the member's name and its rate in the turn before.
	// It may be nil.
	Turn func(name string, perSecond float64)
}

// Member is a contender under the name that its records have.
type Member struct {
	Name string
	*contender.Contender
}

type member struct {
	Member
	rec      sample.Record
	running  *contender.Running
	session  Session
	start    map[string][]proc.Usage  // by role, before its first slice
	usages   map[string][]proc.Usage  // by role, at the last look
	lookedAt time.Time                // when that was
	lastPID  int                      // the machine's, when the member's processes were last listed
	cpu      map[string]time.Duration // by role, in its slices
	least    time.Duration            // the shortest slice that suits it
	rate     float64                  // requests per second in its last slice
}

// Block carries out a block and returns a record of each member. Members that cannot be measured
// beside others are measured alone, each in a trial, and so is the control, for comparison; their
// records give the reason in Alone. The error is the bench's own, or ctx's.
func (b *Bench) Block(ctx context.Context, k Block) ([]sample.Record, error) {
	s := &blockState{
		bench: b, Block: k, random: rand.New(rand.NewPCG(k.Seed, uint64(k.Number))), alone: make(map[string]string),
	}
	s.Measure = cmp.Or(k.Measure, b.Measure)
	s.random.Shuffle(len(k.Members), func(i, j int) { k.Members[i], k.Members[j] = k.Members[j], k.Members[i] })
	why := tooManyFiles(&k)
	if k.Scenario.Fresh {
		why = "each trial begins with new processes"
	}
	for _, m := range k.Members {
		if why != "" {
			s.alone[m.Name] = why
		}
	}
	if len(s.alone) < len(k.Members) {
		if err := s.measure(ctx); err != nil {
			return nil, err
		}
	}
	return s.measureAlone(ctx)
}

type blockState struct {
	Block
	bench     *Bench
	random    *rand.Rand
	generator []int     // its CPUs; none if it shares the servers'
	cpus      proc.CPUs // those that the block uses
	probe     *probe
	length    time.Duration     // of each slice
	rounds    int               // of the block
	ownCPU    time.Duration     // used by members in their own slices
	up        []*member         // members that run
	records   []sample.Record   // of members that do not run any more
	alone     map[string]string // reasons why members are measured alone, by name

	// A trial is a block of one member, whose only slice takes all of the time. The kernel may count
	// the calls in it.
	isTrial bool
	calls   *proc.Calls                  // nil if it does not
	counted map[string]map[string]uint64 // by role and name
}

// SpareFiles is more files than this process opens besides those of a block.
const SpareFiles = 100

// filesPerThread is the number of files that a thread of the generator opens besides its
// connections.
const filesPerThread = 4

// tooManyFiles returns why the generator cannot hold all connections of a block at once, or "".
func tooManyFiles(k *Block) string {
	limit := proc.OpenFiles()
	if need := len(k.Members)*(k.Connections+filesPerThread*runtime.NumCPU()) + SpareFiles; uint64(need) > limit {
		return fmt.Sprintf("%d contenders with %d connections each need %d open files, and the limit is %d", len(k.Members), k.Connections, need, limit)
	}
	return ""
}

// followControl measures all members alone if the control is, or any of members that belong
// together.
func (s *blockState) followControl() {
	why := s.alone[s.Control]
	for _, m := range s.Members {
		if s.Together {
			why = cmp.Or(why, s.alone[m.Name])
		}
	}
	if why == "" {
		return
	}
	for _, m := range s.Members {
		s.alone[m.Name] = cmp.Or(s.alone[m.Name], "what it is compared with is measured alone: "+why)
	}
}

// measure starts all members, loads them in rounds of slices and stops them.
func (s *blockState) measure(ctx context.Context) (err error) {
	restore, generator, err := s.bench.moveAside(s.Condition)
	if err != nil {
		return err
	}
	defer restore()
	// A session that ends gives its threads the processors that they had before, so it ends first.
	defer func() {
		for _, m := range slices.Clone(s.up) {
			err = errors.Join(err, s.remove(m))
		}
	}()
	servers, _ := Layout(s.bench.CPUs, s.Cores)
	cpus := s.bench.CPUs
	if generator != nil {
		cpus = slices.Concat(servers, generator)
	}
	s.generator, s.cpus = generator, proc.NewCPUs(cpus)
	if s.isTrial {
		servers = nil // a trial is not compared slice by slice
	}
	if s.probe, err = newProbe(servers); err != nil {
		return err
	}
	defer s.probe.close()
	for _, m := range s.Members {
		if s.alone[m.Name] != "" {
			continue
		}
		if err := s.start(ctx, m); err != nil {
			return err
		}
	}
	stop := s.loadBeside(ctx)
	err = s.load(ctx)
	if besideErr := stop(); s.isComparable() { // otherwise that load had no server
		err = errors.Join(err, besideErr)
	}
	if err != nil {
		return err
	}
	for _, m := range slices.Clone(s.up) {
		if len(m.rec.Slices) == 0 && !s.isComparable() {
			continue // the control failed before it had a turn
		}
		if err := s.finish(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *blockState) load(ctx context.Context) error {
	for _, m := range slices.Clone(s.up) {
		if err := s.warm(ctx, m); err != nil {
			return err
		}
	}
	if !s.isTrial {
		if err := s.removeRestless(); err != nil {
			return err
		}
	}
	s.plan()
	for round := 1; round <= s.rounds && s.isComparable(); round++ {
		if err := s.round(ctx, round); err != nil {
			return err
		}
	}
	return nil
}

// isComparable reports whether a member runs, and the control, too, if there is one.
func (s *blockState) isComparable() bool {
	if s.Control == "" {
		return len(s.up) > 0
	}
	return slices.ContainsFunc(s.up, func(m *member) bool { return m.Name == s.Control })
}

func (s *blockState) start(ctx context.Context, of Member) error {
	free, total := float64(proc.MemoryAvailable()), float64(proc.MemoryTotal())
	if !s.isTrial && free > 0 && free < spareMemory*total {
		s.alone[of.Name] = "the machine's memory does not hold all contenders at once"
		s.followControl()
		return s.stopAlone()
	}
	m := &member{Member: of, cpu: make(map[string]time.Duration)}
	m.rec = sample.Record{
		Block: s.Number, Condition: s.Condition, Contender: of.Name, Start: time.Now(),
		Costs: make(map[string][]proc.Cost),
	}
	var err error
	m.running, err = s.bench.Stage.Start(ctx, of.Contender, s.bench.Setting(s.Condition),
		equal.Ready(of.Contender, s.bench.Request))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		m.rec.Failure = err.Error()
		s.records = append(s.records, m.rec)
		return nil
	}
	s.up = append(s.up, m)
	if s.Scenario.Idle {
		return s.measureIdle(ctx, m)
	}
	return s.connect(ctx, m)
}

func (s *blockState) connect(ctx context.Context, m *member) (err error) {
	plan := s.bench.plan(m.running.Place(), s.Condition, s.generator)
	if g := s.bench.Generator; g != nil {
		m.session, err = g.Open(ctx, plan)
	} else if own, openErr := load.Open(ctx, plan); openErr == nil {
		m.session = own
	} else {
		err = openErr
	}
	if _, unreached := errors.AsType[*load.ConnectError](err); unreached {
		return s.fail(m, cmp.Or(m.died(), err.Error()))
	}
	return err
}

// died returns why a member's processes have ended, or "" if they run.
func (m *member) died() string {
	select {
	case <-m.running.Dead():
		return m.running.WhyDead().Error()
	default:
		return ""
	}
}

// diesSoon is died after a moment: the kernel closes the connections of a process before its parent
// learns that it has ended.
func (m *member) diesSoon() string {
	select {
	case <-m.running.Dead():
	case <-time.After(deathTime):
	}
	return m.died()
}

// fail records a member's failure and stops it at once, so that it does not disturb the others.
func (s *blockState) fail(m *member, why string) error {
	m.rec.Failure = why
	s.records = append(s.records, m.rec)
	return s.remove(m)
}

// remove stops a member. It has no further turn.
func (s *blockState) remove(m *member) error {
	s.up = slices.DeleteFunc(s.up, func(other *member) bool { return other == m })
	return m.stop()
}

// warm loads a member for a time that does not count, and determines how long its slices have to
// be.
func (s *blockState) warm(ctx context.Context, m *member) error {
	s.announce(m)
	if err := m.look(); err != nil {
		return err
	}
	children := m.childrenCPU()
	slice, err := m.session.Slice(ctx, max(s.bench.Warmup, 1), false)
	if err != nil {
		return err
	}
	if why := m.died(); why != "" {
		return s.fail(m, why)
	}
	m.rate = float64(slice.Requests) / slice.Elapsed.Seconds()
	if err = m.look(); err != nil {
		return err
	}
	m.start = m.usages
	if slice.Drained > max(longestSlice, s.Measure) {
		s.alone[m.Name] = fmt.Sprintf("its last responses take %v after the last request",
			slice.Drained.Round(time.Millisecond))
	}
	m.least = shortestSlice
	switch {
	case !s.Saturated():
		m.least = max(rateSlice, time.Duration(dueRequests/s.Rate*float64(time.Second)))
	case m.childrenCPU() > children:
		m.least = tickedSlice
	}
	drained := time.Duration(float64(slice.Drained) / drainShare)
	m.least = max(m.least, min(drained, s.Measure/fewestRounds, longestSlice))
	return nil
}

// childrenCPU returns the CPU time of children that the contender's processes have waited for.
func (m *member) childrenCPU() (total time.Duration) {
	for _, usages := range m.usages {
		for _, u := range usages {
			total += u.EndedUser + u.EndedSys
		}
	}
	return total
}

// plan determines the length of all slices, which is what the most demanding member needs, and
// their number. With equal lengths the beginning and the end of a slice have the same share of
// every slice.
func (s *blockState) plan() {
	for _, m := range s.up {
		s.length = max(s.length, min(m.least, s.Measure))
	}
	if s.isTrial {
		s.length = s.Measure
	}
	if s.length > 0 {
		s.rounds = max(1, int(s.Measure.Seconds()/s.length.Seconds()+0.5))
	}
}

func (s *blockState) announce(m *member) {
	if s.Turn != nil {
		s.Turn(m.Name, m.rate)
	}
}

// removeRestless stops the members that use CPU time without a request. Of two spans of sleepTime the
// lower one counts: what a server does just after its warm-up passes.
func (s *blockState) removeRestless() error {
	var looks [2]map[string]sample.Asleep
	for i := range looks {
		time.Sleep(sleepTime)
		looks[i] = make(map[string]sample.Asleep)
		for _, m := range s.up {
			before := m.rec.Asleep
			if err := s.lookAsleep(m); err != nil {
				return err
			}
			looks[i][m.Name] = sample.Asleep{For: m.rec.Asleep.For - before.For, CPU: m.rec.Asleep.CPU - before.CPU}
		}
	}
	bound := cmp.Or(s.bench.restBound, sleepBound)
	for _, m := range s.up {
		if share := min(looks[0][m.Name].Share(), looks[1][m.Name].Share()); share > bound {
			s.alone[m.Name] = fmt.Sprintf("it uses %.0f %% of a CPU while it receives no request", 100*share)
		}
	}
	s.followControl()
	return s.stopAlone()
}

func (s *blockState) stopAlone() error {
	for _, m := range slices.Clone(s.up) {
		if s.alone[m.Name] != "" {
			if err := s.remove(m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *member) stop() error {
	if m.session != nil {
		m.session.Close()
	}
	if err := m.running.Stop(); err != nil {
		return fmt.Errorf("%s: stop: %w", m.Contender.Name, err)
	}
	return nil
}

// measureAlone measures the members that have a reason for it, and the control.
func (s *blockState) measureAlone(ctx context.Context) ([]sample.Record, error) {
	if len(s.alone) == 0 {
		return s.records, nil
	}
	for _, m := range s.Members {
		why := s.alone[m.Name]
		if why == "" && m.Name == s.Control {
			why = "to be compared with contenders that are measured alone"
		}
		if why == "" {
			continue
		}
		s.announce(&member{Member: m})
		rec, err := s.bench.alone(ctx, s.Block, m, nil)
		if err != nil {
			return nil, err
		}
		rec.Alone = why
		s.records = append(s.records, rec)
	}
	return s.records, nil
}

// alone measures a member of a block in a trial: fresh processes, which are loaded once. If to is not
// nil, the kernel counts system calls.
func (b *Bench) alone(ctx context.Context, k Block, m Member, to *sample.Attribution) (rec sample.Record, err error) {
	s := &blockState{
		bench: b, Block: k, isTrial: true, random: rand.New(rand.NewPCG(k.Seed, 0)), alone: make(map[string]string),
	}
	s.Members, s.Control = []Member{m}, ""
	if to != nil {
		if s.calls, err = proc.CountCalls(); err != nil {
			to.Missing = []string{fmt.Sprintf("system calls were not counted: %v", err)}
		}
		defer func() { err = errors.Join(err, s.calls.Close()) }()
	}
	if err := s.measure(ctx); err != nil {
		return rec, err
	}
	rec = s.records[0]
	rec.Slices, rec.Attribution = nil, to
	if rec.Idle == nil {
		rec.Asleep = sample.Asleep{}
	}
	if to != nil {
		to.Calls = s.counted
	}
	return rec, nil
}
