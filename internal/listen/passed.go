package listen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

const (
	// firstPassed is the descriptor of the first passed socket (sd_listen_fds(3)).
	firstPassed = 3
	// maxPassed limits LISTEN_FDS.
	maxPassed = 1024
)

// Passed holds sockets that are open already. Each can be used once.
type Passed struct{ sockets []Socket }

// Socket is a socket that was passed, with its name in LISTEN_FDNAMES.
type Socket struct {
	Listener net.Listener // nil if it is in use
	Name     string
}

// NewPassed returns a Passed that holds listeners.
func NewPassed(all []net.Listener) *Passed {
	p := new(Passed)
	for _, l := range all {
		p.sockets = append(p.sockets, Socket{Listener: l})
	}
	return p
}

// Descriptors returns sockets that another process has opened, at descriptors from first on. Each
// has a name.
func Descriptors(first int, names []string) (*Passed, error) {
	p := new(Passed)
	for i, name := range names {
		l, err := listenerOf(first + i)
		if err != nil {
			p.Close()
			return nil, err
		}
		p.sockets = append(p.sockets, Socket{l, name})
	}
	return p, nil
}

// Inherit returns the sockets that the service manager has opened for this process, according to
// the variables LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES (sd_listen_fds(3)). It unsets the
// variables, so that the sockets are used once, and not by child processes.
func Inherit() (*Passed, error) {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return new(Passed), nil // none, or for another process
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxPassed {
		return nil, fmt.Errorf("invalid LISTEN_FDS %q: want a number up to %d", count, maxPassed)
	}
	all := make([]string, n)
	copy(all, strings.Split(names, ":"))
	return Descriptors(firstPassed, all)
}

// listenerOf makes a listener of a descriptor.
func listenerOf(fd int) (net.Listener, error) {
	closeOnExec(fd)
	file := os.NewFile(uintptr(fd), "passed socket")
	defer file.Close()
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not a listening stream socket: %w", fd, err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the service manager owns it
	}
	return l, nil
}

// Any reports whether there are any sockets.
func (p *Passed) Any() bool { return len(p.sockets) > 0 }

// Addrs returns the addresses of the sockets that are not in use.
func (p *Passed) Addrs() (all []net.Addr) {
	for _, s := range p.sockets {
		if s.Listener != nil {
			all = append(all, s.Listener.Addr())
		}
	}
	return all
}

// Close closes the sockets that are not in use, and returns their names.
func (p *Passed) Close() (unused []string) {
	for i, s := range p.sockets {
		if l := p.use(i); l != nil {
			l.Close()
			unused = append(unused, s.Name)
		}
	}
	return unused
}

// use returns a socket, or nil if it is in use. From now on it is in use.
func (p *Passed) use(i int) net.Listener {
	l := p.sockets[i].Listener
	p.sockets[i].Listener = nil
	return l
}

// listeners is Named without the names.
func (p *Passed) listeners(name string) (all []net.Listener, err error) {
	sockets, err := p.Named(name)
	for _, s := range sockets {
		all = append(all, s.Listener)
	}
	return all, err
}

// Named returns the sockets with a name, or all if name is empty. It fails if there is none,
// or if all are in use.
func (p *Passed) Named(name string) (all []Socket, err error) {
	var names []string
	for i, s := range p.sockets {
		names = append(names, s.Name)
		if s.Listener != nil && (name == "" || s.Name == name) {
			all = append(all, Socket{p.use(i), s.Name})
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case name != "":
		return nil, fmt.Errorf("no socket of that name was passed (LISTEN_FDNAMES is %q)", strings.Join(names, ":"))
	}
	return nil, errors.New("no socket was passed: LISTEN_FDS and LISTEN_PID are not set for this process")
}

// At returns the socket that was passed for an address. If there is none, the Socket has no
// Listener.
func (p *Passed) At(s Spec) Socket {
	for i, passed := range p.sockets {
		if passed.Listener != nil && s.matches(passed.Listener.Addr()) {
			return Socket{p.use(i), passed.Name}
		}
	}
	return Socket{}
}

// Has reports whether a socket of that name was passed and is not in use.
func (p *Passed) Has(name string) bool {
	for _, s := range p.sockets {
		if s.Listener != nil && s.Name == name {
			return true
		}
	}
	return false
}

// matches reports whether a socket's address is that of the Spec.
func (s Spec) matches(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.UnixAddr:
		return s.Network == "unix" && s.Address == a.Name
	case *net.TCPAddr:
		host, port, err := net.SplitHostPort(s.Address)
		if err != nil || s.Network == "unix" || port != strconv.Itoa(a.Port) {
			return false
		}
		if host == "" {
			return a.IP.IsUnspecified() && (s.Network != "tcp4" || a.IP.To4() != nil)
		}
		ip, err := netip.ParseAddr(host)
		return err == nil && ip.Zone() == a.Zone && net.IP(ip.AsSlice()).Equal(a.IP)
	}
	return false
}

// CheckUnused returns an error if a passed socket is not in use: its clients would wait forever.
func (p *Passed) CheckUnused() error {
	for i, s := range p.sockets {
		if s.Listener != nil {
			return fmt.Errorf("socket %d (%q) was passed, but no listener uses it (listen on %s)", i, s.Name, s.Listener.Addr())
		}
	}
	return nil
}
