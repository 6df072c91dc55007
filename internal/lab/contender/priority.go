package contender

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/proc"
)

// Priority is the nice value of contenders and of the load generator: beside programs of nice 0
// they get nine tenths of a contended CPU.
const Priority = -10

// Prioritize gives all threads of this process the nice value Priority until restore is called.
// Threads and processes that they start inherit it. If the kernel groups the programs of each
// session (autogroup, sched(7)), the session gets it, too: otherwise a nice value counts within the
// session only. The guard restores the session's if this process is killed. Prioritize changes
// nothing and returns an error without a guard, without the privilege, or if the user has chosen a
// nice value.
func (s *Stage) Prioritize() (restore func() error, err error) {
	if s.guard == nil {
		return nil, errors.New("no guard would restore it")
	}
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return nil, os.NewSyscallError("getpriority", err)
	}
	if nice := 20 - raw; nice != 0 { // the system call returns 20 - nice
		return nil, fmt.Errorf("this process was started with the nice value %d", nice)
	}
	calm := func() error { return setNice(0) }
	if err := setNice(Priority); err != nil {
		return nil, errors.Join(err, calm())
	}
	file := autogroup()
	if file == "" {
		return calm, nil
	}
	const own = "/proc/self/autogroup" // of the same session, whose leader may end
	s.guard.send(guardNice, file)
	if err := os.WriteFile(own, []byte(strconv.Itoa(Priority)), 0); err != nil {
		return nil, errors.Join(err, calm())
	}
	return func() error {
		err := os.WriteFile(own, []byte("0"), 0)
		if err == nil {
			s.guard.send("-"+guardNice, file)
		}
		return errors.Join(err, calm())
	}, nil
}

// autogroup returns the file with the nice value of this session's programs, for other processes;
// "" if the kernel does not group them, the session's leader has ended, or the value is not 0.
func autogroup() (file string) {
	if proc.Setting("kernel.sched_autogroup_enabled") != "1" {
		return ""
	}
	leader, err := unix.Getsid(0)
	if err != nil {
		return ""
	}
	file = fmt.Sprintf("/proc/%d/autogroup", leader)
	if text, err := os.ReadFile(file); err != nil || !strings.HasSuffix(strings.TrimSpace(string(text)), " nice 0") {
		return ""
	}
	return file
}

func setNice(nice int) error {
	return EachThread(func(tid int) error {
		return os.NewSyscallError("setpriority", unix.Setpriority(unix.PRIO_PROCESS, tid, nice))
	})
}

// EachThread calls f with the ID of each thread of this process. New threads inherit what f sets,
// and EachThread looks again for one that a thread began before its own call. It ignores threads
// that have ended.
func EachThread(f func(tid int) error) error {
	done := make(map[string]bool)
	for isNew := true; isNew; {
		tasks, _ := filepath.Glob("/proc/self/task/[0-9]*") // fails for an invalid pattern only
		isNew = false
		for _, task := range tasks {
			if done[task] {
				continue
			}
			done[task], isNew = true, true
			tid, _ := strconv.Atoi(filepath.Base(task)) // the kernel's names are numbers
			if err := f(tid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}
