package poll

import (
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// ErrAgain is what Recv and Send return when they would block.
const ErrAgain = syscall.EAGAIN

// ErrNoPort is what Connect returns when the address it connects from has no port left for
// that peer.
const ErrNoPort = syscall.EADDRNOTAVAIL

// Connect begins a connection to a TCP address, from an address of this machine or, if that
// is the zero value, from where the system thinks best. The result is non-blocking; it is
// connected once it is writable and ConnectError returns nil.
func Connect(from netip.Addr, address netip.AddrPort) (fd int, err error) {
	domain, to := sockaddr(address)
	if fd, err = stream(domain); err != nil {
		return -1, err
	}
	err = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	if err == nil && from.IsValid() {
		err = bind(fd, from)
	}
	if err == nil {
		err = syscall.Connect(fd, to)
	}
	if err != nil && err != syscall.EINPROGRESS { //nolint:errorlint // a bare errno
		_ = syscall.Close(fd)
		return -1, os.NewSyscallError("connect", err)
	}
	return fd, nil
}

// bindAddressNoPort is IP_BIND_ADDRESS_NO_PORT, which package syscall lacks: the port is
// chosen when the peer is known, so that one port can serve for many peers (ip(7)).
const bindAddressNoPort = 24

// bind gives a socket its own address.
func bind(fd int, from netip.Addr) error {
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, bindAddressNoPort, 1); err != nil {
		return err
	}
	_, own := sockaddr(netip.AddrPortFrom(from, 0))
	return syscall.Bind(fd, own)
}

// ConnectUnix is Connect for the unix socket of that path, an absolute one. Where too many
// connections wait to be accepted it returns ErrAgain and nothing has begun: no event will
// tell when there is room.
func ConnectUnix(path string) (fd int, err error) {
	if fd, err = stream(syscall.AF_UNIX); err != nil {
		return -1, err
	}
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	if err == nil {
		return fd, nil
	}
	_ = syscall.Close(fd)
	if err == ErrAgain { //nolint:errorlint // a bare errno
		return -1, ErrAgain
	}
	return -1, os.NewSyscallError("connect", err)
}

// stream returns a new socket for a connection.
func stream(domain int) (fd int, err error) {
	fd, err = syscall.Socket(domain, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	return fd, nil
}

func sockaddr(address netip.AddrPort) (domain int, to syscall.Sockaddr) {
	if ip := address.Addr().Unmap(); ip.Is4() {
		return syscall.AF_INET, &syscall.SockaddrInet4{Port: int(address.Port()), Addr: ip.As4()}
	}
	return syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(address.Port()), Addr: address.Addr().As16()}
}

// ConnectError returns how a connection that Connect began has ended.
func ConnectError(fd int) error {
	errno, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if errno != 0 {
		return os.NewSyscallError("connect", syscall.Errno(errno))
	}
	return nil
}

// Recv reads what has arrived into b, which is not empty. It returns 0 and nil when
// the peer has sent all it will, and ErrAgain when nothing has arrived.
func Recv(fd int, b []byte) (int, error) {
	n, err := transfer(sysRecvfrom, fd, b, syscall.MSG_DONTWAIT)
	received(fd)
	return n, err
}

// Send writes as much of b, which is not empty, as there is room for, and returns
// ErrAgain when there is none.
func Send(fd int, b []byte) (int, error) {
	sending()
	return transfer(sysSendto, fd, b, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
}

// setLength sets a length of the kernel's, which is as large as the machine's words.
func setLength[T uint32 | uint64](length *T, n int) { *length = T(n) }

// SendAll is Send for pieces that follow each other.
func SendAll(fd int, pieces [][]byte) (int, error) {
	sending()
	var vectors [maxPieces]syscall.Iovec
	n := min(len(pieces), len(vectors))
	for i, p := range pieces[:n] {
		vectors[i].Base = unsafe.SliceData(p)
		vectors[i].SetLen(len(p))
	}
	m := syscall.Msghdr{Iov: &vectors[0]}
	setLength(&m.Iovlen, n)
	for {
		sent, _, errno := syscall.RawSyscall(sysSendmsg, uintptr(fd), uintptr(unsafe.Pointer(&m)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		switch errno {
		case 0:
			return int(sent), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// maxPieces is how many pieces one call sends.
const maxPieces = 40

// transfer makes a system call without telling the scheduler, which is safe because
// MSG_DONTWAIT keeps it from blocking. A send and a receive together take 595 ns this
// way and 717 with the scheduler told (BenchmarkTransfer).
func transfer(trap uintptr, fd int, b []byte, flags uintptr) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// Close closes a descriptor.
func Close(fd int) error { return syscall.Close(fd) }

// Reset closes a connection at once: the peer gets a reset, and no port of ours is
// kept in TIME_WAIT.
func Reset(fd int) error {
	err := syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	if err := syscall.Close(fd); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("poll: closed without a reset: %w", err)
	}
	return nil
}

// Dup returns another descriptor of what fd is one of.
func Dup(fd int) (int, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// Ended reports whether the peer has sent all it will, or the connection has failed,
// and nothing that arrived before is unread. It reads nothing.
func Ended(fd int) bool {
	var b [1]byte
	n, err := transfer(sysRecvfrom, fd, b[:], syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
	return n == 0 && err != ErrAgain //nolint:errorlint // a bare errno
}

// Quiet reports whether nothing has arrived that is unread, nor the peer's end, nor a failure. It
// reads nothing.
func Quiet(fd int) bool {
	var b [1]byte
	_, err := transfer(sysRecvfrom, fd, b[:], syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
	return err == ErrAgain //nolint:errorlint // a bare errno
}

// Peek copies to b what has arrived, as much as there is room for, and leaves it unread.
func Peek(fd int, b []byte) int {
	n, err := transfer(sysRecvfrom, fd, b, syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
	if err != nil {
		return 0
	}
	return n
}

// Shutdown ends both directions of a connection, and with them whatever waits for
// it. The descriptor stays open.
func Shutdown(fd int) error { return syscall.Shutdown(fd, syscall.SHUT_RDWR) }

// CloseWrite tells the peer that nothing more will be sent.
func CloseWrite(fd int) error { return syscall.Shutdown(fd, syscall.SHUT_WR) }

// QuietFor returns for how long nothing has arrived on a TCP connection.
func QuietFor(fd int) time.Duration {
	var info syscall.TCPInfo
	size := uint32(syscall.SizeofTCPInfo)
	_, _, errno := syscall.Syscall6(sysGetsockopt, uintptr(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0
	}
	return time.Duration(info.Last_data_recv) * time.Millisecond
}
