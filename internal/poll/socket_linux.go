package poll

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// ErrAgain is what Recv and Send return when they would block.
const ErrAgain = syscall.EAGAIN

// ErrNoPort is what Connect returns if no local port is left for the peer.
const ErrNoPort = syscall.EADDRNOTAVAIL

// Connect starts a connection to a TCP address, from a local address or, if that is the zero value,
// from one that the system chooses. The descriptor is non-blocking. The connection is established
// once it is writable and ConnectError returns nil.
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

// bindAddressNoPort is IP_BIND_ADDRESS_NO_PORT, which package syscall lacks. The kernel chooses the
// port when the peer is known, so that one port can serve several peers (ip(7)).
const bindAddressNoPort = 24

func bind(fd int, from netip.Addr) error {
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, bindAddressNoPort, 1); err != nil {
		return err
	}
	_, own := sockaddr(netip.AddrPortFrom(from, 0))
	return syscall.Bind(fd, own)
}

// ConnectUnix is Connect for a unix socket with an absolute path. If too many connections wait to
// be accepted, it returns ErrAgain. No connection was started then, and no event will report room.
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

// ConnectError returns the result of a connection that Connect started.
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

// Recv reads what has arrived into b, which is not empty. It returns 0 and nil at the end of the
// input, and ErrAgain if nothing has arrived.
func Recv(fd int, b []byte) (int, error) {
	n, err := transfer(sysRecvfrom, fd, b, syscall.MSG_DONTWAIT)
	received(fd)
	return n, err
}

// Send writes as much of b, which is not empty, as there is room for. It returns ErrAgain if there
// is no room.
func Send(fd int, b []byte) (int, error) {
	sending()
	return transfer(sysSendto, fd, b, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
}

// SendEnd sends b, which is not empty, and the end of the output. Over TCP they share a segment if
// b fits into one. If there was room for a part of b only, or if the connection has failed, sent is
// smaller than b, and the output has not ended.
//
// MSG_MORE keeps b until the end follows. Close alone would add the end, too, but if input was not
// read it resets the connection and drops what was kept.
func SendEnd(fd int, b []byte) (sent int) {
	sending()
	sent, _ = transfer(sysSendto, fd, b, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL|msgMore)
	if sent == len(b) {
		_ = CloseWrite(fd)
	}
	return sent
}

const msgMore = 0x8000 // MSG_MORE, which package syscall lacks

// setLength sets a length field of the kernel, whose type depends on the architecture.
func setLength[T uint32 | uint64](length *T, n int) { *length = T(n) }

// SendAll is Send for several pieces in order.
func SendAll(fd int, pieces [][]byte) (int, error) {
	if len(pieces) == 1 {
		return Send(fd, pieces[0])
	}
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
		sent, _, errno := syscall.RawSyscall(sysSendmsg, uintptr(fd), uintptr(unsafe.Pointer(&m)),
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		switch errno {
		case 0:
			return int(sent), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

const maxPieces = 40 // maximum number of pieces of one call

// transfer makes a system call without informing the scheduler. This is safe because MSG_DONTWAIT
// keeps the call from blocking. A send and a receive together take 595 ns this way, and 717 with
// the scheduler informed (BenchmarkTransfer).
//
// If the scheduler is informed, the call also wakes its monitor thread, which sleeps once all loops
// have waited. The thread then checks the processors every 20 µs for a millisecond or more. With
// connections of one request, that took a seventh of the CPU time. Therefore all calls that loops
// make for a connection bypass the scheduler.
func transfer(trap uintptr, fd int, b []byte, flags uintptr) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
			uintptr(len(b)), flags, 0, 0)
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

// CloseAtOnce is Close for a socket that does not linger. It does not inform the scheduler, because
// the call cannot block; see transfer.
func CloseAtOnce(fd int) error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0)
	return errorOf(errno)
}

func errorOf(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// Lingers reports whether Close of a socket may block because SO_LINGER is set. The connections of
// a listening socket inherit the option.
func Lingers(fd int) bool {
	linger, err := getsockopt[syscall.Linger](fd, syscall.SOL_SOCKET, syscall.SO_LINGER)
	return err != nil || linger.Onoff != 0 && linger.Linger > 0
}

// getsockopt returns an option of a socket whose value is a struct of the kernel.
func getsockopt[T any](fd int, level, option uintptr) (value T, err error) {
	size := uint32(unsafe.Sizeof(value))
	_, _, errno := syscall.RawSyscall6(sysGetsockopt, uintptr(fd), level, option,
		uintptr(unsafe.Pointer(&value)), uintptr(unsafe.Pointer(&size)), 0)
	return value, errorOf(errno)
}

// Reset closes a connection at once: the peer receives a reset, and no local port stays in
// TIME_WAIT.
func Reset(fd int) error {
	err := syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	return errors.Join(err, syscall.Close(fd))
}

// Dup duplicates a descriptor. It returns -1 and an error if it fails.
func Dup(fd int) (int, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	return int(n), errorOf(errno)
}

// Ended reports whether the input has ended or the connection has failed, and no input is unread.
// It consumes nothing.
func Ended(fd int) bool {
	var b [1]byte
	n, err := transfer(sysRecvfrom, fd, b[:], syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
	return n == 0 && err != ErrAgain //nolint:errorlint // a bare errno
}

// Quiet reports whether there is neither unread input, nor the end of the input, nor a failure. It
// consumes nothing.
//
// It uses ppoll(2), which does not lock the socket. It takes 652 ns, of which any system call takes
// 382; a recvfrom(2) with MSG_PEEK takes 856 (BenchmarkQuiet).
func Quiet(fd int) bool {
	request := pollRequest{fd: int32(fd), events: syscall.EPOLLIN | syscall.EPOLLRDHUP}
	var wait [2]int64 // a struct timespec that is 0, and as long as the longest
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&request)), 1,
			uintptr(unsafe.Pointer(&wait)), 0, 0, 0)
		if errno != syscall.EINTR { // a signal may come first
			return errno == 0 && n == 0
		}
	}
}

// pollRequest is a struct pollfd. The bits of its events are those of epoll(7).
type pollRequest struct {
	fd              int32
	events, results int16
}

// Peek copies unread input to b without consuming it.
func Peek(fd int, b []byte) int {
	n, err := transfer(sysRecvfrom, fd, b, syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
	if err != nil {
		return 0
	}
	return n
}

// Shutdown shuts down both directions of a connection, which ends calls that wait for it. The
// descriptor stays open.
func Shutdown(fd int) error { return shutdown(fd, syscall.SHUT_RDWR) }

// CloseWrite shuts down the sending side of a connection.
func CloseWrite(fd int) error { return shutdown(fd, syscall.SHUT_WR) }

// shutdown does not inform the scheduler, because the call cannot block; see transfer.
func shutdown(fd, how int) error {
	_, _, errno := syscall.RawSyscall(sysShutdown, uintptr(fd), uintptr(how), 0)
	return errorOf(errno)
}

const maxDiscards = 64 // limits how often Discard reads

// Discard reads and discards what has arrived. Unread input makes Close reset a connection, and the
// client then loses what it has not received yet.
func Discard(fd int) {
	var b [4 << 10]byte
	for range maxDiscards {
		if n, err := Recv(fd, b[:]); n < len(b) || err != nil {
			return
		}
	}
}

// AckNow acknowledges what a TCP connection has received. It is called after a TLS handshake whose
// last message is the client's, to which nothing is sent. A client that uses Nagle's algorithm, as
// it does by default, holds its first request back until that message is acknowledged, and the
// kernel would delay this by 40 ms.
func AckNow(fd int) {
	_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
}

// QuietFor returns how long no input has arrived on a TCP connection.
func QuietFor(fd int) time.Duration {
	info, err := getsockopt[syscall.TCPInfo](fd, syscall.IPPROTO_TCP, syscall.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Last_data_recv) * time.Millisecond
}

// Unread returns how many bytes have arrived on a socket and were not read.
func Unread(fd int) (int, error) {
	var n int32
	_, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	return int(n), errorOf(errno)
}
