package contender

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// part is one process of a contender, with its descendants.
type part struct {
	role   string
	folder string // its working directory; "" is the scratch folder
	words  []string
	env    []string
	cpus   []int
	socket *os.File // is passed to the process; may be nil
	files  int      // limit of open files; 0 is that of this process

	cmd     *exec.Cmd
	log     *os.File
	exited  chan struct{}
	exitErr error // valid once exited is closed
}

// fileName returns the beginning of the names of a role's files.
func fileName(role string) string {
	if role == RoleApplication {
		return "app"
	}
	return strings.ReplaceAll(role, " ", "-")
}

func openSocket(address string) (*os.File, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	defer l.Close() // the file is a copy
	return l.(*net.TCPListener).File()
}

func (p *part) hasEnded() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *part) closeSocket() error {
	if p.socket == nil {
		return nil
	}
	return p.socket.Close()
}

// command returns the part's program and arguments. A shell sets what only the new process itself
// can set: its limits, and the variables of a passed socket, which name its process
// (sd_listen_fds(3)).
func (p *part) command() []string {
	script := ""
	if p.files > 0 {
		script += "ulimit -n " + strconv.Itoa(p.files) + " && "
	}
	if p.socket != nil {
		script += "export LISTEN_FDS=1 LISTEN_PID=$$ && "
	}
	if script == "" {
		return p.words
	}
	return append([]string{"/bin/sh", "-c", script + `exec "$@"`, "sh"}, p.words...)
}

func (r *Running) start(p *part) error {
	words := p.command()
	c := exec.Command(words[0], words[1:]...)
	c.Dir, c.Env = p.folder, p.env
	c.Stdout, c.Stderr = p.log, p.log
	if p.socket != nil {
		c.ExtraFiles = []*os.File{p.socket}
	}
	if err := r.stage.spawn(c, p.cpus); err != nil {
		return err
	}
	r.stage.guard.send(guardGroup, c.Process.Pid)
	exited := make(chan struct{})
	p.cmd, p.exited = c, exited
	go func() {
		p.exitErr = c.Wait()
		close(exited)
		r.once.Do(func() { close(r.dead) })
	}()
	return nil
}

func (r *Running) part(role string) (*part, error) {
	for _, p := range r.parts {
		if p.role == role {
			return p, nil
		}
	}
	return nil, fmt.Errorf("contender: %s has no %s", r.Name, role)
}

// Signal sends a signal to the process of a role. Its descendants do not receive it.
func (r *Running) Signal(role string, s syscall.Signal) error {
	p, err := r.part(role)
	if err != nil {
		return err
	}
	if p.hasEnded() {
		return fmt.Errorf("contender: the %s of %s has ended", role, r.Name)
	}
	return p.cmd.Process.Signal(s)
}

const reloadPatience = time.Second // how long Reload waits for a command to fail

// Reload makes the front read its configuration again. A command that takes longer continues until
// ctx ends: it may wait for clients.
func (r *Running) Reload(ctx context.Context) error {
	if r.reload == "" {
		role := RoleFront
		if r.Front == Nginx {
			role = RoleNginx
		}
		return r.Signal(role, syscall.SIGHUP)
	}
	words := r.fill(strings.Fields(r.reload), "{conf}", r.confFile(), "{dir}", r.dir)
	ended := make(chan error, 1)
	go func() {
		_, err := (&Command{Dir: r.dir, Env: r.env}).Run(ctx, words[0], words[1:]...)
		if err != nil {
			err = fmt.Errorf("%s: %w", strings.Join(words, " "), err)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-time.After(reloadPatience):
		return nil
	}
}

// Ended reports whether the process of a role has ended.
func (r *Running) Ended(role string) (bool, error) {
	p, err := r.part(role)
	return err == nil && p.hasEnded(), err
}

// endPatience is how long StartAgain waits for a process that was killed a moment ago.
const endPatience = 3 * time.Second

// StartAgain waits until the process of a role has ended, and starts it with the same arguments. It
// returns an error if the process does not end, and does not wait for a response.
func (r *Running) StartAgain(ctx context.Context, role string) error {
	p, err := r.part(role)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, endPatience,
		fmt.Errorf("contender: the %s of %s still runs: it must end before it starts again", role, r.Name))
	defer cancel()
	select {
	case <-p.exited:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.stage.guard.send("-"+guardGroup, p.cmd.Process.Pid)
	return r.start(p)
}

// Roles returns the roles of the contender's processes, in the order in which they were started.
func (r *Running) Roles() []string {
	roles := make([]string, len(r.parts))
	for i, p := range r.parts {
		roles[i] = p.role
	}
	return roles
}

// awaitReplicas waits until all of the application's processes listen. A front that finds one
// missing may leave it out for a while.
func (r *Running) awaitReplicas() error {
	deadline := time.Now().Add(time.Duration(r.Ready.Within))
	for _, at := range r.upstreams {
		network, address := "tcp", at
		if path, ok := strings.CutPrefix(at, "unix:"); ok {
			network, address = "unix", path
		}
		for {
			c, err := net.DialTimeout(network, address, time.Until(deadline))
			if err == nil {
				c.Close()
				break
			}
			select {
			case <-r.dead:
				return r.deadPart()
			case <-time.After(pollEvery):
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("no connection to the application after %v: %w", time.Duration(r.Ready.Within), err)
			}
		}
	}
	return nil
}
