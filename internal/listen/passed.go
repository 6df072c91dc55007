package listen

import (
	"errors"
	"fmt"
	"net"
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

// Passed holds the sockets that the service manager has opened for this process, according to the
// variables LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES (sd_listen_fds(3)).
type Passed struct {
	files []*os.File // nil once in use
	names []string
}

// NewPassed returns sockets that another process has passed, with their names.
func NewPassed(files []*os.File, names []string) *Passed { return &Passed{files, names} }

// Inherit finds the passed sockets. It unsets the variables, so that child processes do not use
// them. It must be called only once.
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
	p := new(Passed)
	all := strings.Split(names, ":")
	for i := range n {
		name := ""
		if i < len(all) {
			name = all[i]
		}
		closeOnExec(firstPassed + i)
		p.files = append(p.files, os.NewFile(uintptr(firstPassed+i), "passed socket "+strconv.Itoa(i)))
		p.names = append(p.names, name)
	}
	return p, nil
}

// Any reports whether any sockets were passed.
func (p *Passed) Any() bool { return len(p.files) > 0 }

// Has reports whether a socket of that name was passed and is not in use.
func (p *Passed) Has(name string) bool {
	for i, f := range p.files {
		if f != nil && p.names[i] == name {
			return true
		}
	}
	return false
}

// Close closes the sockets that are not in use, and returns their names.
func (p *Passed) Close() (unused []string) {
	for i, f := range p.files {
		if f != nil {
			f.Close()
			p.files[i] = nil
			unused = append(unused, p.names[i])
		}
	}
	return unused
}

// A Socket is a listener of a passed socket.
type Socket struct {
	net.Listener
	Name string
}

// Named makes listeners of the sockets with a name, or of all if name is empty. It fails if there
// is none that is not in use.
func (p *Passed) Named(name string) (all []Socket, err error) {
	for i, f := range p.files {
		if f == nil || name != "" && p.names[i] != name {
			continue
		}
		l, err := p.listener(i)
		if err != nil {
			for _, s := range all {
				s.Close()
			}
			return nil, err
		}
		all = append(all, Socket{l, p.names[i]})
	}
	switch {
	case len(all) > 0:
		return all, nil
	case name != "":
		return nil, fmt.Errorf("no socket of that name was passed (LISTEN_FDNAMES is %q)", strings.Join(p.names, ":"))
	}
	return nil, errors.New("no socket was passed: LISTEN_FDS and LISTEN_PID are not set for this process")
}

// listeners is Named without the names.
func (p *Passed) listeners(name string) (all []net.Listener, err error) {
	sockets, err := p.Named(name)
	for _, s := range sockets {
		all = append(all, s.Listener)
	}
	return all, err
}

// listener makes a listener of a passed socket.
func (p *Passed) listener(i int) (net.Listener, error) {
	l, err := net.FileListener(p.files[i])
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not a listening stream socket: %w", firstPassed+i, err)
	}
	p.files[i].Close()
	p.files[i] = nil
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the service manager owns it
	}
	return l, nil
}

// At makes a listener of the socket that was passed for an address. The Socket has no Listener if
// there is none.
func (p *Passed) At(s Spec) (Socket, error) {
	for i, f := range p.files {
		if f == nil {
			continue
		}
		addr, err := localAddr(f)
		if err != nil {
			return Socket{}, fmt.Errorf("descriptor %d is not a socket: %w", firstPassed+i, err)
		}
		if s.matches(addr) {
			l, err := p.listener(i)
			return Socket{l, p.names[i]}, err
		}
	}
	return Socket{}, nil
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
		ip := net.ParseIP(host)
		return ip != nil && ip.Equal(a.IP)
	}
	return false
}

// localAddr returns the address of a socket. The file stays open.
func localAddr(f *os.File) (net.Addr, error) {
	l, err := net.FileListener(f) // FileListener duplicates the descriptor
	if err != nil {
		return nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	return l.Addr(), l.Close()
}

// Rest returns an error if a passed socket is not in use: its clients would wait forever.
func (p *Passed) Rest() error {
	for i, f := range p.files {
		if f != nil {
			return fmt.Errorf("socket %d (%q) was passed, but no listener uses it (listen on systemd)", i, p.names[i])
		}
	}
	return nil
}
