package proc

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Usage is what a process has cost since it began.
type Usage struct {
	PID         int
	Name        string
	User, Sys   time.Duration // counted in clock ticks: coarse, but told apart
	EndedUser   time.Duration // of children that ended and were waited for
	EndedSys    time.Duration // likewise
	Ran         time.Duration // of all its threads, those that have ended included, in nanoseconds; 0 if the kernel does not tell
	Waited      time.Duration // that its threads were ready and had no processor; 0 if the kernel does not tell
	Voluntary   uint64        // context switches because it had to wait
	Involuntary uint64        // context switches because it was another's turn
	MinorFaults uint64        // pages that were given to it without reading a disk
	MajorFaults uint64        // pages that were read from a disk
	RSS         int64         // resident bytes, now
	Threads     int           // living, now
	FileBytes   uint64        // written to files that are on a disk; 0 if the kernel does not tell
}

// tick is USER_HZ, which Linux has fixed at 100 for all it tells programs.
const tick = 10 * time.Millisecond

// Usages returns the usage of each process. One that has ended is left out.
func Usages(processes []Process) ([]Usage, error) {
	var usages []Usage
	for _, p := range processes {
		u, err := usage(p)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("proc: process %d (%s): %w", p.PID, p.Name, err)
		}
		usages = append(usages, u)
	}
	return usages, nil
}

func usage(p Process) (Usage, error) {
	pr, err := procfs.NewProc(p.PID)
	if err != nil {
		return Usage{}, err
	}
	stat, err := pr.Stat()
	if err != nil {
		return Usage{}, err
	}
	u := Usage{
		PID: p.PID, Name: p.Name,
		User: time.Duration(stat.UTime) * tick, Sys: time.Duration(stat.STime) * tick,
		EndedUser: time.Duration(stat.CUTime) * tick, EndedSys: time.Duration(stat.CSTime) * tick,
		MinorFaults: uint64(stat.MinFlt), MajorFaults: uint64(stat.MajFlt),
		RSS: int64(stat.ResidentMemory()), Threads: stat.NumThreads, Ran: cpuTime(p.PID),
	}
	if io, err := pr.IO(); err == nil {
		u.FileBytes = io.WriteBytes
	}
	threads, err := procfs.AllThreads(p.PID) // a process's own status and schedstat tell of its first thread only
	if err != nil {
		return Usage{}, err
	}
	for _, t := range threads {
		status, err := t.NewStatus()
		if gone(err) {
			continue
		}
		if err != nil {
			return Usage{}, err
		}
		u.Voluntary += status.VoluntaryCtxtSwitches
		u.Involuntary += status.NonVoluntaryCtxtSwitches
		if s, err := t.Schedstat(); err == nil {
			u.Waited += time.Duration(s.WaitingNanoseconds)
		}
	}
	return u, nil
}

// Again returns usages whose Ran is of now, and all else of then. It costs a hundredth of what Usages does.
// It reports false if a process has ended, or has no clock.
func Again(then []Usage) (now []Usage, ok bool) {
	now = slices.Clone(then)
	for i := range now {
		if now[i].Ran = cpuTime(now[i].PID); now[i].Ran == 0 {
			return nil, false
		}
	}
	return now, true
}

// Self returns the usage of this process, without what Usages alone tells: RSS, Threads and FileBytes.
func Self(name string) (Usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return Usage{}, fmt.Errorf("proc: %w", os.NewSyscallError("getrusage", err))
	}
	return Usage{
		PID: os.Getpid(), Name: name, User: time.Duration(r.Utime.Nano()), Sys: time.Duration(r.Stime.Nano()), Ran: cpuTime(os.Getpid()),
		Voluntary: uint64(r.Nvcsw), Involuntary: uint64(r.Nivcsw), MinorFaults: uint64(r.Minflt), MajorFaults: uint64(r.Majflt),
	}, nil
}

// cpuTime reads a process's clock of CPU time, as clock_getcpuclockid(3) names it.
func cpuTime(pid int) time.Duration {
	const ofProcess = 2 // CPUCLOCK_SCHED, of all threads
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofProcess), &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}

// Cost is what a process cost between two looks at it.
type Cost struct {
	PID         int           `json:"pid"`
	Name        string        `json:"name"`
	User        time.Duration `json:"userNs"`
	Sys         time.Duration `json:"sysNs"`
	Voluntary   uint64        `json:"voluntarySwitches"`
	Involuntary uint64        `json:"involuntarySwitches"`
	MinorFaults uint64        `json:"minorFaults"`
	MajorFaults uint64        `json:"majorFaults"`
	RSS         int64         `json:"rssBytes"`  // at the second look
	GrewPages   uint64        `json:"grewPages"` // that the second look found resident beyond the first; 0 if it shrank
	Threads     int           `json:"threads"`   // at the second look
	FileBytes   uint64        `json:"fileBytes"`
	Waited      time.Duration `json:"waitedNs"` // that its threads were ready and had no processor
}

// CPU returns user and system time together.
func (c Cost) CPU() time.Duration { return c.User + c.Sys }

// Costs returns what each process in after cost since before. One that was not
// there before has cost all it has.
func Costs(before, after []Usage) []Cost {
	var s Sum
	s.Add(before, after)
	return s.Costs()
}

// Sum adds up what processes cost in several spans of time, without what they cost between them.
// The zero value is nothing.
type Sum struct{ all []spent }

// spent is what one process cost. Its Cost has clock ticks for times.
type spent struct {
	Cost
	ran   time.Duration
	ended struct{ user, sys time.Duration } // of children
	told  bool                              // the kernel tells what it ran
}

// Add adds a span, given by what there was to see at both of its ends. A process that was not there
// before has cost all it has. What a process that has ended used before the span is subtracted from
// what its parent reports of ended children, because it has been counted.
func (s *Sum) Add(before, after []Usage) {
	was := make(map[int]Usage, len(before))
	for _, u := range before {
		was[u.PID] = u
	}
	counted := endedSince(before, after)
	for _, u := range after {
		at := slices.IndexFunc(s.all, func(x spent) bool { return x.PID == u.PID })
		if at < 0 {
			at = len(s.all)
			s.all = append(s.all, spent{Cost: Cost{PID: u.PID, Name: u.Name}, told: true})
		}
		counted -= s.all[at].add(was[u.PID], u, counted)
	}
}

// endedSince returns the CPU time, at the first look, of processes that the second one did not find.
func endedSince(before, after []Usage) (total time.Duration) {
	for _, u := range before {
		if !slices.ContainsFunc(after, func(is Usage) bool { return is.PID == u.PID }) {
			total += cmp.Or(u.Ran, u.User+u.Sys) + u.EndedUser + u.EndedSys
		}
	}
	return total
}

// add adds a span of a process. It returns how much of counted it has subtracted.
func (s *spent) add(was, is Usage, counted time.Duration) (subtracted time.Duration) {
	s.User += is.User - was.User
	s.Sys += is.Sys - was.Sys
	s.Voluntary += is.Voluntary - min(was.Voluntary, is.Voluntary)
	s.Involuntary += is.Involuntary - min(was.Involuntary, is.Involuntary)
	s.MinorFaults += is.MinorFaults - min(was.MinorFaults, is.MinorFaults)
	s.MajorFaults += is.MajorFaults - min(was.MajorFaults, is.MajorFaults)
	s.GrewPages += uint64(max(0, is.RSS-was.RSS)) / uint64(os.Getpagesize())
	s.FileBytes += is.FileBytes - min(was.FileBytes, is.FileBytes)
	s.Waited += max(0, is.Waited-was.Waited)
	s.RSS, s.Threads = is.RSS, is.Threads
	s.ran += is.Ran - was.Ran
	s.told = s.told && is.Ran > 0
	user, sys := is.EndedUser-was.EndedUser, is.EndedSys-was.EndedSys
	if ended := user + sys; ended > 0 {
		subtracted = min(counted, ended)
		rest := float64(ended-subtracted) / float64(ended)
		s.ended.user += time.Duration(rest * float64(user))
		s.ended.sys += time.Duration(rest * float64(sys))
	}
	return subtracted
}

// Costs returns what each process cost. The total is that of the process's clock, which counts
// nanoseconds; how it is split into user and system time is told by clock ticks. What children
// cost that it had for a request each, and has waited for, is added, of which there are ticks only.
func (s *Sum) Costs() []Cost {
	costs := make([]Cost, len(s.all))
	for i := range s.all {
		x := &s.all[i]
		c := x.Cost
		if ticked := c.User + c.Sys; x.told {
			share := 0.5
			if ticked > 0 {
				share = float64(c.User) / float64(ticked)
			}
			c.User = time.Duration(share * float64(x.ran))
			c.Sys = x.ran - c.User
		}
		c.User += x.ended.user
		c.Sys += x.ended.sys
		costs[i] = c
	}
	return costs
}

// Scale makes the CPU time of all processes together total, and leaves the shares of it as they are.
func Scale(costs []Cost, total time.Duration) {
	var sum time.Duration
	for _, c := range costs {
		sum += c.CPU()
	}
	if sum == 0 {
		return
	}
	by := float64(total) / float64(sum)
	for i := range costs {
		c := &costs[i]
		c.User, c.Sys = time.Duration(by*float64(c.User)), time.Duration(by*float64(c.Sys))
	}
}

// CPU returns the CPU time of all processes together.
func (s *Sum) CPU() (total time.Duration) {
	for _, c := range s.Costs() {
		total += c.CPU()
	}
	return total
}
