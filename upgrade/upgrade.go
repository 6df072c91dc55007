package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/sdnotify"
)

// Default values of Options.
const (
	DefaultReadyTimeout = time.Minute
	DefaultIdleGrace    = 30 * time.Second
	DefaultSocketMode   = fs.FileMode(0o666)
)

// Options are settings of an Upgrader. The zero value is ready to use.
type Options struct {
	// Executable is the file of new processes. If it is empty, it is the file that the name of this
	// process leads to. It is found when New is called, and opened for each upgrade.
	Executable string
	// ReadyTimeout limits how long a new process may take until it is ready. 0 is
	// DefaultReadyTimeout.
	ReadyTimeout time.Duration
	// IdleGrace is how long the old process leaves idle connections open, whose clients may be
	// sending a request. 0 is DefaultIdleGrace. A negative value closes them at once.
	IdleGrace time.Duration
	// DrainTimeout limits how long a process that ends may finish its requests. 0 is no limit.
	DrainTimeout time.Duration
	// PIDFile, if not empty, is a file that contains the process ID of the process that serves.
	PIDFile string
	// SocketMode is the permissions of new unix sockets. 0 is DefaultSocketMode.
	SocketMode fs.FileMode
	// Signals are the signals on which Run upgrades. If it is nil, this is SIGUSR2.
	Signals []os.Signal
	// Logger logs upgrades and their errors. If it is nil, slog.Default does.
	Logger *slog.Logger
}

// An Upgrader starts new processes of its program and passes listening sockets to them. Its methods
// may be called concurrently. A process needs only one.
type Upgrader struct {
	options Options
	dir     string // working directory when New was called
	parent  *parent
	owned   *listen.Passed // sockets that an older process of the program has opened
	given   *listen.Passed // sockets of the service manager

	passedFiles []*os.File // files of the process that this one replaces

	done     chan struct{} // closed when another process has taken over
	stop     chan struct{} // closed by Stop
	stopOnce sync.Once

	signals  chan os.Signal // those of Options.Signals
	attempt  sync.Mutex     // held while an upgrade runs
	handlers atomic.Int64   // those of Handler that run
	isEnding atomic.Bool    // Run drains

	mu      sync.Mutex // guards the rest
	state   state
	sockets []socket
	files   []*os.File // of AddFile
	hooks   []*handoverHook
	servers []Server
	serve   []func() error // for each listener
}

// state is where an Upgrader is:
//
//	starting ──Ready──▶ serving ──Upgrade──▶ upgrading ──the new process is ready──▶ replaced
//	upgrading ──the new process fails──▶ serving
type state int

const (
	starting state = iota
	serving
	upgrading
	replaced
)

// Errors that Upgrade returns.
var (
	// ErrNotReady is returned before Ready.
	ErrNotReady = errors.New("upgrade: this process is not ready yet")
	// ErrInProgress is returned while another upgrade runs.
	ErrInProgress = errors.New("upgrade: another upgrade is in progress")
	// ErrReplaced is returned after an upgrade.
	ErrReplaced = errors.New("upgrade: this process has been replaced")
	// ErrStopped is returned if Stop was called.
	ErrStopped = errors.New("upgrade: this process is stopping")
)

// New returns an Upgrader with the sockets that an older process or the service manager has passed.
// It must be called before the program starts other processes, and only once: the variables of the
// environment that describe the sockets are unset.
func New(o Options) (*Upgrader, error) {
	u := &Upgrader{options: o, done: make(chan struct{}), stop: make(chan struct{})}
	o.setDefaults()
	u.options = o
	var err error
	if u.given, err = listen.Inherit(); err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	if err := u.inherit(); err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	if u.dir, err = os.Getwd(); err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	if u.options.Executable == "" {
		u.options.Executable, err = executable()
	} else {
		u.options.Executable, err = filepath.Abs(u.options.Executable)
	}
	if err != nil {
		return nil, fmt.Errorf("upgrade: the program's file: %w", err)
	}
	if u.options.PIDFile != "" { // the program may change its working directory
		if u.options.PIDFile, err = filepath.Abs(u.options.PIDFile); err != nil {
			return nil, fmt.Errorf("upgrade: %w", err)
		}
	}
	u.signals = make(chan os.Signal, 1)
	if len(u.options.Signals) > 0 { // Notify without signals means all of them
		signal.Notify(u.signals, u.options.Signals...) // they would end a process that is starting
	}
	return u, nil
}

func (o *Options) setDefaults() {
	o.ReadyTimeout = cmp.Or(o.ReadyTimeout, DefaultReadyTimeout)
	o.IdleGrace = cmp.Or(o.IdleGrace, DefaultIdleGrace)
	o.SocketMode = cmp.Or(o.SocketMode, DefaultSocketMode)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Signals == nil {
		o.Signals = defaultSignals()
	}
}

// executable returns the path by which the program was started. A symbolic link in it is followed
// for each upgrade, so that it may lead to a new version by then.
func executable() (string, error) {
	actual, err := os.Executable()
	if err != nil {
		return "", err
	}
	running, err := os.Stat(actual)
	if err != nil {
		return "", err
	}
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return actual, nil
	}
	if named, err := os.Stat(path); err != nil || !os.SameFile(named, running) {
		return actual, nil // the caller chose another name
	}
	return filepath.Abs(path)
}

// Ready reports that the process can serve: to the process that it replaces, and to the service
// manager. It returns when the old process has confirmed, or has ended. It writes the PID file, and
// closes sockets that were passed and that the program does not use. A program must not accept
// connections before: they would be lost if the process is not ready in time. Run calls Ready.
func (u *Upgrader) Ready() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.state != starting {
		return nil
	}
	var pid pidFile
	if u.options.PIDFile != "" {
		var err error
		if pid, err = newPIDFile(u.options.PIDFile); err != nil {
			return fmt.Errorf("upgrade: %w", err)
		}
	}
	isMain := true // the old process reports it to the service manager
	if u.parent != nil {
		isReplacing, err := u.parent.confirm()
		if err != nil {
			return errors.Join(err, pid.discard())
		}
		isMain, u.parent = !isReplacing, nil
		for _, s := range u.sockets {
			u.setUnlink(s)
		}
	}
	u.closeUnused()
	u.logIfFailed("writing the PID file", pid.publish()) // the old process does not come back
	if isMain {
		u.notify(sdnotify.MainPID(os.Getpid()), sdnotify.Ready)
	}
	u.state = serving
	return nil
}

// closeUnused closes the passed sockets that the program has not requested. No other
// process serves them any more, so files of unix sockets are removed.
func (u *Upgrader) closeUnused() {
	u.owned.RemoveFiles()
	for _, name := range u.owned.Close() {
		u.options.Logger.Info("upgrade: no longer listening", "socket", name)
	}
	for _, name := range u.given.Close() {
		u.options.Logger.Warn("upgrade: a socket of the service manager is not used", "name", name)
	}
}

// Done returns a channel that is closed when a new process has taken over. The program then
// finishes its requests and exits. Run does so.
func (u *Upgrader) Done() <-chan struct{} { return u.done }

// Stop makes Run end the process's servers, and return. An upgrade in progress is abandoned.
func (u *Upgrader) Stop() { u.stopOnce.Do(func() { close(u.stop) }) }

// Upgrade starts a new process, passes the listening sockets to it, and waits until it is ready.
// Then it closes the channel of Done. If the new process fails, or is not ready in time, Upgrade
// ends it, logs the error and returns it, and this process serves on.
func (u *Upgrader) Upgrade(ctx context.Context) error {
	if err := u.begin(); err != nil {
		return err
	}
	u.attempt.Lock()
	defer u.attempt.Unlock()
	u.notify(sdnotify.Reloading, sdnotify.MonotonicUsec(), sdnotify.Status("starting a new process"))
	ctx, cancel := context.WithTimeoutCause(ctx, u.options.ReadyTimeout,
		fmt.Errorf("it was not ready after %v", u.options.ReadyTimeout))
	defer cancel()
	pid, err := u.replace(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		if u.state = serving; !errors.Is(err, ErrStopped) {
			err = fmt.Errorf("upgrade: %w", err)
		}
		u.options.Logger.Error("upgrade failed", "error", err)
		u.notify(sdnotify.Ready, sdnotify.Status(err.Error()))
		return err
	}
	u.state = replaced
	u.options.Logger.Info("upgrade: a new process serves", "pid", pid)
	u.notify(sdnotify.MainPID(pid), sdnotify.Ready, sdnotify.Status("serving since the upgrade"))
	close(u.done)
	return nil
}

func (u *Upgrader) begin() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.stop:
		return ErrStopped
	default:
	}
	switch u.state {
	case starting:
		return ErrNotReady
	case upgrading:
		return ErrInProgress
	case replaced:
		return ErrReplaced
	}
	u.state = upgrading
	return nil
}

// notify sends states to the service manager. A failure is logged: requests are served without it.
func (u *Upgrader) notify(states ...string) {
	u.logIfFailed("notifying the service manager", sdnotify.Send(states...))
}

func (u *Upgrader) logIfFailed(what string, err error) {
	if err != nil {
		u.options.Logger.Error("upgrade: "+what, "error", err)
	}
}

// A socket is a net.Listener or *net.UDPConn of this process.
type socket struct {
	conn    io.Closer
	name    string // under which it is passed on
	isOwned bool   // the program has opened it, not the service manager
	isNew   bool   // this process has opened it
}
