package poll

import (
	"net/netip"
	"os"
	"syscall"
	"unsafe"
)

// Peer is the other end of a connection, as the kernel reports it when the connection is accepted.
type Peer struct {
	Addr netip.AddrPort // of a TCP connection; without a zone
	Zone uint32         // the interface of a link-local address, or 0
	Name string         // of a unix socket: a path, or "@" and an abstract name, which may be empty
}

// Accept accepts a connection of a listening socket, which must be non-blocking, as the new
// descriptor is. It returns ErrAgain if no connection waits.
//
// It does not inform the scheduler, because the call cannot block.
func Accept(listener int) (fd int, peer Peer, err error) {
	var from syscall.RawSockaddrAny
	for {
		size := uint32(syscall.SizeofSockaddrAny)
		n, _, errno := syscall.RawSyscall6(sysAccept4, uintptr(listener), uintptr(unsafe.Pointer(&from)),
			uintptr(unsafe.Pointer(&size)), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case 0:
			return int(n), peerAt(&from), nil
		case syscall.EINTR, syscall.ECONNABORTED: // package net tries again, too
		default:
			return -1, Peer{}, errno
		}
	}
}

func peerAt(from *syscall.RawSockaddrAny) Peer {
	switch from.Addr.Family {
	case syscall.AF_INET:
		a := (*syscall.RawSockaddrInet4)(unsafe.Pointer(from))
		return Peer{Addr: netip.AddrPortFrom(netip.AddrFrom4(a.Addr), hostOrder(&a.Port))}
	case syscall.AF_INET6:
		a := (*syscall.RawSockaddrInet6)(unsafe.Pointer(from))
		ip := netip.AddrFrom16(a.Addr).Unmap()
		return Peer{Addr: netip.AddrPortFrom(ip, hostOrder(&a.Port)), Zone: a.Scope_id}
	case syscall.AF_UNIX:
		a := (*syscall.RawSockaddrUnix)(unsafe.Pointer(from))
		name := make([]byte, 0, len(a.Path))
		for i, c := range a.Path {
			if c == 0 && i == 0 {
				c = '@' // as in package syscall, for an abstract name, or none
			}
			if c == 0 {
				break
			}
			name = append(name, byte(c))
		}
		return Peer{Name: string(name)}
	}
	return Peer{}
}

// hostOrder returns a port that is in network byte order.
func hostOrder(port *uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(port))
	return uint16(b[0])<<8 | uint16(b[1])
}

// IsNonblocking reports whether calls on a descriptor return ErrAgain instead of blocking.
func IsNonblocking(fd int) bool {
	flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
	return errno == 0 && flags&syscall.O_NONBLOCK != 0
}

const optionCount = 5 // number of options that package net sets on each TCP connection

// AcceptedOptions are the values of the options that package net sets on each TCP connection that
// it accepts. They are in the order of acceptedOptions.
type AcceptedOptions [optionCount]int

// acceptedOptions returns the level and the name of each of these options.
func acceptedOptions() [optionCount][2]int {
	return [optionCount][2]int{
		{syscall.IPPROTO_TCP, syscall.TCP_NODELAY},
		{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT},
	}
}

// ReadAcceptedOptions returns the options of a socket.
func ReadAcceptedOptions(fd int) (all AcceptedOptions, err error) {
	for i, option := range acceptedOptions() {
		if all[i], err = syscall.GetsockoptInt(fd, option[0], option[1]); err != nil {
			return all, err
		}
	}
	return all, nil
}

// Set sets the options of a socket. The connections that a listening socket receives later inherit
// them.
func (all AcceptedOptions) Set(fd int) error {
	for i, option := range acceptedOptions() {
		if err := syscall.SetsockoptInt(fd, option[0], option[1], all[i]); err != nil {
			return err
		}
	}
	return nil
}

// WereInherited reports whether a connection has inherited the options of its listening socket. It
// checks TCP_NODELAY, which package net always sets.
func (all AcceptedOptions) WereInherited(fd int) bool {
	value, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
	return err == nil && value == all[0]
}

const protocolMPTCP = 262 // IPPROTO_MPTCP, which package syscall lacks

// IsMultipath reports whether a socket speaks multipath TCP. Listeners of package net do by
// default; their connections do if the client does.
func IsMultipath(fd int) bool {
	protocol, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_PROTOCOL)
	return err == nil && protocol == protocolMPTCP
}

// QueuedConnections returns how many connections of a TCP listening socket wait to be accepted.
func QueuedConnections(fd int) (int, error) {
	info, err := getsockopt[syscall.TCPInfo](fd, syscall.IPPROTO_TCP, syscall.TCP_INFO)
	return int(info.Unacked), err // tcp(7) does not document it, but ss(8) relies on it
}

// NewRelay returns an epoll descriptor that is readable as long as connections wait to be accepted
// from a listening socket. Close it when it is no longer needed.
//
// A loop watches the relay, not the socket. If the socket's owner closed its descriptor and another
// process had the socket, too, no descriptor would be left by which to remove the socket from the
// loop, and the loop would report it for ever. Closing the relay always ends the reports.
func NewRelay(listener int) (fd int, err error) {
	if fd, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return -1, os.NewSyscallError("epoll_create1", err)
	}
	err = syscall.EpollCtl(fd, syscall.EPOLL_CTL_ADD, listener, &syscall.EpollEvent{Events: syscall.EPOLLIN})
	if err != nil {
		_ = syscall.Close(fd)
		return -1, os.NewSyscallError("epoll_ctl", err)
	}
	return fd, nil
}

// AddRelay makes Wait report a relay under id, as readable, as long as connections wait to be
// accepted. Any goroutine may call it. It fails after Close.
func (l *Loop) AddRelay(fd, id int) error {
	return l.control(syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(id)})
}

// RemoveRelay ends what AddRelay began. Wait may have returned an event that the caller has not yet
// looked at.
func (l *Loop) RemoveRelay(fd int) error { return l.control(syscall.EPOLL_CTL_DEL, fd, nil) }

// control changes what the loop reports. Unlike the calls for connections it may come after Close,
// when another file may have the number of the epoll descriptor.
func (l *Loop) control(op, fd int, event *syscall.EpollEvent) error {
	var err error
	if closed := l.raw.Control(func(epoll uintptr) {
		err = syscall.EpollCtl(int(epoll), op, fd, event)
	}); closed != nil {
		return closed
	}
	return err
}
