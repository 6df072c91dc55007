package upgrade

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/listen"
)

// The hand-over. The old process starts the new one with open descriptors from firstDescriptor on:
//
//	confirmations  a pipe, from which the new process reads a line when the old one has confirmed, or
//	               has abandoned it
//	readiness      a pipe, to which the new process writes a line when it is ready
//	sockets        as the variable of the environment describes them, and files
//
// The end of a pipe shows each process that the other one has ended.
const (
	firstDescriptor = 3
	pipes           = 2
	// variable of the environment that holds a handover in JSON. It contains the version of this
	// protocol: programs of different versions replace each other.
	variable = "TARE_UPGRADE_1"
	line     = "ready\n"
	// abandoned replaces the confirmation. The new process may be the child of the one that the old
	// process has started and killed.
	abandoned = "abandoned\n"
)

// handover describes what the old process passes: the names of the sockets that the program has
// opened, of those of the service manager, and of files, in this order. A version of this package
// that does not know the last ones ignores them.
type handover struct {
	Owned []string `json:"owned"`
	Given []string `json:"given"`
	Files []string `json:"files,omitempty"`
}

// parent is the old process, as the new one sees it.
type parent struct {
	confirmations, readiness *os.File
}

// inherit receives what an old process has passed, if there is one.
func (u *Upgrader) inherit() error {
	text, ok := os.LookupEnv(variable)
	if u.owned = new(listen.Passed); !ok {
		return nil
	}
	if err := os.Unsetenv(variable); err != nil {
		return err
	}
	var h handover
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return fmt.Errorf("invalid %s: %w", variable, err)
	}
	if os.Getenv("WATCHDOG_USEC") != "" { // this process takes over the watchdog of the old one
		if err := os.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid())); err != nil {
			return err
		}
	}
	open := func(i int, name string) *os.File { return listen.File(firstDescriptor+i, name) }
	u.parent = &parent{open(0, "confirmations"), open(1, "readiness")}
	var err error
	if u.owned, err = listen.Descriptors(firstDescriptor+pipes, h.Owned); err != nil {
		return err
	}
	if u.given, err = listen.Descriptors(firstDescriptor+pipes+len(h.Owned), h.Given); err != nil {
		return err
	}
	for i, name := range h.Files {
		u.passedFiles = append(u.passedFiles, open(pipes+len(h.Owned)+len(h.Given)+i, name))
	}
	return nil
}

// errAbandoned is returned if the old process serves on.
var errAbandoned = errors.New("upgrade: the old process has abandoned this one")

// confirm reports readiness to the old process and waits until it has confirmed. It returns false
// if the old process has ended: then this process serves alone.
func (p *parent) confirm() (bool, error) {
	defer p.confirmations.Close()
	defer p.readiness.Close()
	_, _ = p.readiness.WriteString(line) // fails if the old process no longer waits
	confirmation, err := bufio.NewReader(p.confirmations).ReadString('\n')
	if confirmation == abandoned || errors.Is(err, os.ErrClosed) { // also in a second call
		return false, errAbandoned
	}
	return err == nil && confirmation == line, nil
}

// replace starts a new process and waits until it is ready. It returns its process ID. On failure
// no new process is left.
func (u *Upgrader) replace(ctx context.Context) (pid int, err error) {
	if err := supported(); err != nil {
		return 0, err
	}
	readConfirmations, confirmations, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer confirmations.Close()
	readiness, writeReadiness, err := os.Pipe()
	if err != nil {
		readConfirmations.Close()
		return 0, err
	}
	defer readiness.Close()
	c, err := u.start(readConfirmations, writeReadiness)
	if err != nil {
		return 0, err
	}
	pid = c.Process.Pid
	isReady := make(chan error, 1)
	go func() { isReady <- waitReady(readiness) }()
	select {
	case err = <-isReady:
	case <-ctx.Done():
		err = fmt.Errorf("process %d was ended: %w", pid, context.Cause(ctx))
	case <-u.stop:
		err = ErrStopped
	}
	if err == nil {
		err = u.confirm(confirmations)
	}
	if err == nil {
		go func() { _ = c.Wait() }() // it is not a zombie if it ends before this process
		return pid, nil
	}
	_, _ = confirmations.WriteString(abandoned)
	_ = c.Process.Kill() // fails if it has exited
	if _ = c.Wait(); errors.Is(err, errExited) {
		err = fmt.Errorf("process %d ended before it was ready: %s", pid, c.ProcessState)
	}
	return 0, err
}

// errExited means that the new process has closed its pipe, most likely because it has exited.
var errExited = errors.New("the new process is not ready")

// waitReady waits until the new process is ready.
func waitReady(readiness *os.File) error {
	got, err := bufio.NewReader(readiness).ReadString('\n')
	if err != nil {
		return errExited
	}
	if got != line {
		return fmt.Errorf("invalid line %q", got)
	}
	return nil
}

// confirm makes the new process serve.
func (u *Upgrader) confirm(confirmations *os.File) error {
	u.mu.Lock()
	hooks := slices.Clone(u.hooks)
	u.mu.Unlock()
	for _, h := range hooks {
		h.stop()
	}
	// If this fails the process has ended just now, like one that ends just after it.
	_, err := confirmations.WriteString(line)
	if err != nil {
		for _, h := range hooks {
			h.resume()
		}
	}
	return err
}

// start starts the program again, and passes it the sockets and its ends of pipes. It closes these
// ends.
func (u *Upgrader) start(ends ...*os.File) (*exec.Cmd, error) {
	sockets, text, err := u.handover()
	passed := append(ends, sockets...)
	defer func() {
		for _, f := range passed {
			f.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	c := exec.Command(u.options.Executable)
	c.Args = slices.Clone(os.Args)
	c.Dir = u.dir
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.ExtraFiles = passed
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "WATCHDOG_PID=") { // it is this process's
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, variable+"="+text)
	return c, c.Start()
}

// handover returns duplicates of the sockets that are open, and their description.
func (u *Upgrader) handover() (files []*os.File, text string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var h handover
	pass := func(to *[]string, socket any, name string) error {
		file, err := listen.Duplicate(socket, name)
		if isClosed(err) {
			return nil // the program no longer listens there
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files, *to = append(files, file), append(*to, name)
		return nil
	}
	for _, isOwned := range []bool{true, false} {
		to := &h.Given
		if isOwned {
			to = &h.Owned
		}
		for _, s := range u.sockets {
			if s.isOwned == isOwned {
				err = errors.Join(err, pass(to, s.conn, s.name))
			}
		}
	}
	for _, f := range u.files {
		err = errors.Join(err, pass(&h.Files, f, f.Name()))
	}
	if err != nil {
		return files, "", err
	}
	b, err := json.Marshal(h)
	return files, string(b), err
}
