package contender

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/proc"
)

// Stage starts and ends the processes of contenders.
type Stage struct {
	dir   string // scratch folder; its path is short, because a socket's must be
	cpus  []int  // that this process may use
	guard *guard
	host  string      // on which clients reach contenders
	do    chan func() // executed by the one thread that starts processes

	small  int               // number of small files in a site
	siteMu sync.Mutex        // guards sites
	sites  map[string]string // copies of sites by their source folder

	// certificate makes the certificate of all contenders that serve TLS, on the first call.
	certificate func() (certFiles, error)

	mark string // in the environment of all processes of the stage
	runs atomic.Int64
}

// StageOptions configure a Stage.
type StageOptions struct {
	// Guard is the command line of a process that calls Guard. Without it, contenders survive if
	// this process is killed.
	Guard []string

	SmallFiles int // number of small files in sites

	Host string // IPv4 address on which contenders listen for clients; "" is 127.0.0.1
}

// NewStage makes a stage. The caller must close it.
func NewStage(o StageOptions) (*Stage, error) {
	// Orphans of contenders become children of this process, so that endStrays finds them.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("contender: %w", err)
	}
	cpus, err := AllCPUs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tare-")
	if err != nil {
		return nil, err
	}
	s := &Stage{
		dir: dir, cpus: cpus, host: cmp.Or(o.Host, loopbackHost), small: o.SmallFiles,
		do:    make(chan func()),
		sites: make(map[string]string), mark: "TARE_STAGE=" + filepath.Base(dir),
	}
	s.certificate = sync.OnceValues(func() (certFiles, error) { return newCertificate(dir) })
	// nginx workers of another user read it.
	if err := errors.Join(os.Chmod(dir, 0o755), os.CopyFS(dir, etcFiles)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go s.thread()
	if len(o.Guard) > 0 {
		s.guard, err = startGuard(o.Guard)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.guard.send(guardMark, s.mark)
		s.guard.send(guardFolder, dir)
	}
	return s, nil
}

// Close ends all processes of the stage and removes the scratch folder.
func (s *Stage) Close() error {
	_, err := endStrays(s.mark)
	err = errors.Join(err, os.RemoveAll(s.dir))
	if s.guard != nil {
		err = errors.Join(err, s.guard.close())
	}
	close(s.do)
	return err
}

// thread executes functions of do on one thread, which starts all processes. The kernel sends a
// child its death signal when the thread that started it ends, and a child inherits that thread's
// processors.
func (s *Stage) thread() {
	runtime.LockOSThread() // never unlocked: the thread ends with the stage
	if unix.Gettid() == os.Getpid() {
		// The main thread is unsuitable: it never ends, and AllCPUs reads its processors. Holding
		// it makes another goroutine run on another thread.
		over := make(chan struct{})
		go func() { defer close(over); s.thread() }()
		<-over
		runtime.UnlockOSThread()
		return
	}
	for f := range s.do {
		f()
	}
}

// spawn starts a command in a process group of its own, on the given processors; none means all
// that this process may use.
func (s *Stage) spawn(c *exec.Cmd, cpus []int) error {
	if len(cpus) == 0 {
		cpus = s.cpus
	}
	failed := make(chan error, 1)
	s.do <- func() {
		if err := Bind(0, cpus); err != nil {
			failed <- err
			return
		}
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		c.Env = append(c.Env, s.mark)
		failed <- c.Start()
	}
	return <-failed
}

// Bind sets the processors of a thread of this process. The ID 0 is the calling one's.
func Bind(tid int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("contender: cannot bind a thread to processors %v: %w", cpus,
			os.NewSyscallError("sched_setaffinity", err))
	}
	return nil
}

// bindThread sets the processors of the calling thread until restore is called, on the same thread.
func bindThread(cpus []int) (restore func() error, err error) {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	restore = func() error {
		return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(0, &before))
	}
	return restore, Bind(0, cpus)
}

// AllCPUs returns the processors that this process may use.
func AllCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return nil, fmt.Errorf("contender: cannot determine this process's processors: %w",
			os.NewSyscallError("sched_getaffinity", err))
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// endStrays kills strays: children of this process whose environment has a mark.
func endStrays(mark string) (ended []proc.Process, err error) {
	const rounds = 50 // each round may make more orphans
	for range rounds {
		children, err := proc.Children(os.Getpid())
		if err != nil {
			return ended, err
		}
		strays := slices.DeleteFunc(children, func(p proc.Process) bool { return !p.HasEnv(mark) })
		if len(strays) == 0 {
			return ended, nil
		}
		ended = append(ended, strays...)
		for _, p := range strays {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
			_, _ = syscall.Wait4(p.PID, nil, 0, nil)
		}
	}
	return ended, errors.New("contender: processes multiply faster than they can be killed")
}

// Claims are TCP ports of 127.0.0.1 that servers of this process will listen on. A port is free
// until its server listens, which takes a moment. Meanwhile another part, or another process that
// measures or tests on this machine, could choose it, too.
type Claims struct{ held []io.Closer }

// Claim returns a port on which no socket listens and which no other process has claimed. It is
// below the range of outgoing connections, so that no client gets it before the server listens.
func (c *Claims) Claim() (int, error) {
	low := 32768
	first, _, _ := strings.Cut(proc.Setting("net.ipv4.ip_local_port_range"), " ")
	if n, err := strconv.Atoi(first); err == nil {
		low = n
	}
	const lowest, tries = 10_000, 100
	from := min(lowest, low/2)
	var last error
	for range tries {
		port := from + rand.IntN(max(1, low-from))
		if last = c.claim(port); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("contender: no free port: %w", last)
}

// claim claims a port. Only then it listens there for a moment to see that no other socket does:
// the server of another process that has claimed the port may be about to listen.
func (c *Claims) claim(port int) error {
	// A socket with an abstract name vanishes with its process.
	claim, err := net.Listen("unix", "@tare-port-"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	probe, err := net.Listen("tcp", net.JoinHostPort(loopbackHost, strconv.Itoa(port)))
	if err != nil {
		return errors.Join(err, claim.Close())
	}
	c.held = append(c.held, claim)
	return probe.Close()
}

// Release ends all claims.
func (c *Claims) Release() {
	for _, l := range c.held {
		_ = l.Close()
	}
	c.held = nil
}
