package proc

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Cost is what a process used between two looks at it.
type Cost struct {
	PID         int           `json:"pid"`
	Name        string        `json:"name"`
	User        time.Duration `json:"userNs"`
	Sys         time.Duration `json:"sysNs"`
	Voluntary   uint64        `json:"voluntarySwitches"`   // context switches because a thread waited
	Involuntary uint64        `json:"involuntarySwitches"` // those because another thread had its turn
	RSS         int64         `json:"rssBytes"`            // resident bytes at the second look
}

// CPU returns user and system time together.
func (c Cost) CPU() time.Duration { return c.User + c.Sys }

// Usage is what a process has used since it started, User and Sys in clock ticks. Values that the
// kernel does not report are 0.
type Usage struct {
	Cost
	EndedUser time.Duration // of children that ended and were waited for
	EndedSys  time.Duration // likewise
	Ran       time.Duration // CPU time of all threads, including ended ones, exact to nanoseconds
}

// tick is 1/USER_HZ, which is fixed at 100 for all values that Linux reports to programs.
const tick = 10 * time.Millisecond

// Usages returns the usage of each process. It leaves out ended ones.
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
		Cost: Cost{
			PID: p.PID, Name: p.Name, User: time.Duration(stat.UTime) * tick, Sys: time.Duration(stat.STime) * tick,
			RSS: int64(stat.ResidentMemory()),
		},
		EndedUser: time.Duration(stat.CUTime) * tick, EndedSys: time.Duration(stat.CSTime) * tick, Ran: cpuTime(p.PID),
	}
	threads, err := procfs.AllThreads(p.PID) // a process's own status is that of its first thread
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
	}
	return u, nil
}

// Again returns usages with a new Ran; all other fields are copied. It takes a hundredth of the
// time of Usages. It returns false if a process has ended, or has no clock.
func Again(then []Usage) (now []Usage, ok bool) {
	now = slices.Clone(then)
	for i := range now {
		if now[i].Ran = cpuTime(now[i].PID); now[i].Ran == 0 {
			return nil, false
		}
	}
	return now, true
}

// Self returns the CPU time of this process.
func Self() (user, sys time.Duration) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		panic(fmt.Sprintf("proc: BUG: getrusage: %v", err)) // it cannot fail with these arguments
	}
	return time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
}

// cpuTime reads a process's CPU-time clock, whose id is made like clock_getcpuclockid(3) does.
func cpuTime(pid int) time.Duration {
	const ofProcess = 2 // CPUCLOCK_SCHED of all threads
	return Clock(int32(^pid<<3 | ofProcess))
}

// Clock returns the time of one of the kernel's clocks; 0 if there is no such clock.
func Clock(id int32) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(id, &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}

// Costs returns the cost of each process in after since before. The cost of a process that is not
// in before is its whole usage. When a process ends, its parent's EndedUser and EndedSys grow by its
// whole usage. Costs subtracts the part before, which is not a cost of this time.
//
// The CPU time is that of the process's clock, which counts nanoseconds; clock ticks determine the
// shares of user and system time. The CPU time of ended children is added, which the kernel reports
// in ticks only.
func Costs(before, after []Usage) []Cost {
	was := make(map[int]Usage, len(before))
	for _, u := range before {
		was[u.PID] = u
	}
	counted := endedSince(before, after)
	costs := make([]Cost, len(after))
	for i, u := range after {
		costs[i] = u.since(was[u.PID], &counted)
	}
	return costs
}

// Spent returns the CPU time of the Costs.
func Spent(before, after []Usage) (total time.Duration) {
	for _, c := range Costs(before, after) {
		total += c.CPU()
	}
	return total
}

// endedSince returns the CPU time in before of processes that are not in after.
func endedSince(before, after []Usage) (total time.Duration) {
	for _, u := range before {
		if !slices.ContainsFunc(after, func(is Usage) bool { return is.PID == u.PID }) {
			total += cmp.Or(u.Ran, u.CPU()) + u.EndedUser + u.EndedSys
		}
	}
	return total
}

// since returns the cost of a process. It subtracts up to counted from that of ended children, and
// that from counted.
func (u *Usage) since(was Usage, counted *time.Duration) Cost {
	c := Cost{
		PID: u.PID, Name: u.Name, User: u.User - was.User, Sys: u.Sys - was.Sys, RSS: u.RSS,
		Voluntary:   u.Voluntary - min(was.Voluntary, u.Voluntary),
		Involuntary: u.Involuntary - min(was.Involuntary, u.Involuntary),
	}
	if ticked := c.CPU(); u.Ran > 0 { // the kernel reports it
		ran, share := u.Ran-was.Ran, 0.5
		if ticked > 0 {
			share = float64(c.User) / float64(ticked)
		}
		c.User = time.Duration(share * float64(ran))
		c.Sys = ran - c.User
	}
	user, sys := u.EndedUser-was.EndedUser, u.EndedSys-was.EndedSys
	if ended := user + sys; ended > 0 {
		subtracted := min(*counted, ended)
		*counted -= subtracted
		rest := float64(ended-subtracted) / float64(ended)
		c.User += time.Duration(rest * float64(user))
		c.Sys += time.Duration(rest * float64(sys))
	}
	return c
}

// Scale multiplies the CPU times of all processes by a factor so that their sum is total.
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
