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

// Socket is a socket that was passed, with its name in LISTEN_FDNAMES. If it is in use, it has
// neither a Listener nor Packets.
type Socket struct {
	Listener net.Listener
	Packets  *net.UDPConn
	Name     string
}

// address returns the address of a socket that is not in use, or nil.
func (s *Socket) address() net.Addr {
	switch {
	case s.Listener != nil:
		return s.Listener.Addr()
	case s.Packets != nil:
		return s.Packets.LocalAddr()
	}
	return nil
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
		s, err := socketOf(first + i)
		if err != nil {
			p.Close()
			return nil, err
		}
		s.Name = name
		p.sockets = append(p.sockets, s)
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

// File returns the file of a descriptor that another process has opened. Processes that this one
// starts do not receive it.
func File(fd int, name string) *os.File {
	closeOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}

func socketOf(fd int) (s Socket, err error) {
	file := File(fd, "passed socket")
	defer file.Close()
	if s.Listener, err = net.FileListener(file); err == nil {
		if u, ok := s.Listener.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false) // the service manager owns it
		}
		return s, nil
	}
	packets, packetErr := net.FilePacketConn(file)
	if packetErr == nil {
		if udp, ok := packets.(*net.UDPConn); ok {
			return Socket{Packets: udp}, nil
		}
		packets.Close()
	}
	return Socket{}, fmt.Errorf("descriptor %d is neither a listening stream socket nor a UDP socket: %w", fd, err)
}

// Any reports whether there are any sockets.
func (p *Passed) Any() bool { return len(p.sockets) > 0 }

// RemoveFiles makes Close remove the files of unix sockets.
func (p *Passed) RemoveFiles() {
	for i := range p.sockets {
		if u, ok := p.sockets[i].Listener.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(true)
		}
	}
}

// Close closes the sockets that are not in use, and returns their names.
func (p *Passed) Close() (unused []string) {
	for i := range p.sockets {
		switch s := p.use(i); {
		case s.Listener != nil:
			s.Listener.Close()
			unused = append(unused, s.Name)
		case s.Packets != nil:
			s.Packets.Close()
			unused = append(unused, s.Name)
		}
	}
	return unused
}

// use returns a socket. From now on it is in use.
func (p *Passed) use(i int) Socket {
	s := p.sockets[i]
	p.sockets[i] = Socket{Name: s.Name}
	return s
}

// Named returns the listeners with a name, or all if name is empty. It fails if there is none,
// or if all are in use.
func (p *Passed) Named(name string) (all []Socket, err error) {
	var names []string
	for i, s := range p.sockets {
		names = append(names, s.Name)
		if s.Listener != nil && (name == "" || s.Name == name) {
			all = append(all, p.use(i))
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

// At returns the socket that was passed for an address. If there is none, the Socket is empty.
func (p *Passed) At(s Spec) Socket {
	for i := range p.sockets {
		if addr := p.sockets[i].address(); addr != nil && s.Matches(addr) {
			return p.use(i)
		}
	}
	return Socket{}
}

// Matches reports whether a socket's address is that of the Spec.
func (s Spec) Matches(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.UnixAddr:
		return s.Network == "unix" && s.Address == a.Name
	case *net.TCPAddr:
		return strings.HasPrefix(s.Network, "tcp") && s.matchesIP(a.IP, a.Port, a.Zone)
	case *net.UDPAddr:
		return strings.HasPrefix(s.Network, "udp") && s.matchesIP(a.IP, a.Port, a.Zone)
	}
	return false
}

// matchesIP reports whether an IP address and port are those of the Spec.
func (s Spec) matchesIP(at net.IP, atPort int, zone string) bool {
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil || port != strconv.Itoa(atPort) {
		return false
	}
	if host == "" {
		return at.IsUnspecified() && (!strings.HasSuffix(s.Network, "4") || at.To4() != nil)
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Zone() == zone && net.IP(ip.AsSlice()).Equal(at)
}

// CheckUnused returns an error if a passed socket is not in use: its clients would wait forever.
func (p *Passed) CheckUnused() error {
	for i := range p.sockets {
		s := &p.sockets[i]
		if addr := s.address(); addr != nil {
			return fmt.Errorf("socket %d (%q) was passed, but no listener uses it (listen on %s)", i, s.Name, addr)
		}
	}
	return nil
}
