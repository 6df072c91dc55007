package proc

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what a process has cost since it began.
type Usage struct {
	PID         int
	Name        string
	User, Sys   time.Duration // counted in clock ticks: coarse, but told apart
	EndedUser   time.Duration // of children that ended and were waited for
	EndedSys    time.Duration // likewise
	Ran         time.Duration // of all its living threads, in nanoseconds; 0 if the kernel does not tell
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
		RSS: int64(stat.ResidentMemory()), Threads: stat.NumThreads,
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
			u.Ran += time.Duration(s.RunningNanoseconds)
			u.Waited += time.Duration(s.WaitingNanoseconds)
		}
	}
	return u, nil
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
	was := make(map[int]Usage, len(before))
	for _, u := range before {
		was[u.PID] = u
	}
	costs := make([]Cost, 0, len(after))
	for _, u := range after {
		costs = append(costs, cost(was[u.PID], u))
	}
	return costs
}

// tickError is how far the ticks of two looks may be from the truth.
const tickError = 4 * tick

// cost is own, and that of children that a process had for a request each. What such
// a child cost before the first look is in it, too: they live for milliseconds.
func cost(was, is Usage) Cost {
	c := own(was, is)
	c.User += is.EndedUser - was.EndedUser
	c.Sys += is.EndedSys - was.EndedSys
	return c
}

// own takes the total from the scheduler, which counts nanoseconds, and its split
// into user and system time from the clock ticks. If the two disagree by more than
// ticks can, threads have ended meanwhile and their time is in the ticks only.
func own(was, is Usage) Cost {
	c := Cost{
		PID: is.PID, Name: is.Name, User: is.User - was.User, Sys: is.Sys - was.Sys, RSS: is.RSS, GrewPages: uint64(max(0, is.RSS-was.RSS)) / uint64(os.Getpagesize()),
		Threads: is.Threads, Waited: max(0, is.Waited-was.Waited), FileBytes: is.FileBytes - min(was.FileBytes, is.FileBytes),
		Voluntary: is.Voluntary - min(was.Voluntary, is.Voluntary), Involuntary: is.Involuntary - min(was.Involuntary, is.Involuntary),
		MinorFaults: is.MinorFaults - min(was.MinorFaults, is.MinorFaults), MajorFaults: is.MajorFaults - min(was.MajorFaults, is.MajorFaults),
	}
	ran, ticked := is.Ran-was.Ran, c.User+c.Sys
	if is.Ran == 0 || ran < 0 || ran < ticked-tickError || ran > ticked+tickError {
		return c
	}
	share := 0.5
	if ticked > 0 {
		share = float64(c.User) / float64(ticked)
	}
	c.User = time.Duration(share * float64(ran))
	c.Sys = ran - c.User
	return c
}
