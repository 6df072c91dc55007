// Command ceiling sends the same bytes for every request without parsing it: the least that a
// server on one thread can do. It is no real server, because it treats the result of each read as
// one request.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/netip"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/application"
)

const (
	maxEvents     = 256
	edgeTriggered = 1 << 31 // EPOLLET
)

func main() {
	address := flag.String("listen", "", "address to listen on")
	flag.Parse()
	log.SetFlags(0)
	log.Fatal(serve(*address))
}

// serve returns only after an error.
func serve(address string) error {
	listener, err := listen(address)
	if err != nil {
		return err
	}
	poller, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := add(poller, listener, syscall.EPOLLIN); err != nil {
		return err
	}
	response := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: gophr\r\nConnection: keep-alive\r\nContent-Type: text/plain\r\n"+
		"Content-Length: %d\r\nDate: %s\r\n\r\n%s", len(application.Body),
		time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"), application.Body)
	events := make([]syscall.EpollEvent, maxEvents)
	request := make([]byte, 4<<10)
	for {
		n, err := syscall.EpollWait(poller, events, -1)
		if err != nil && err != syscall.EINTR {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			fd := int(e.Fd)
			if fd == listener {
				if err := accept(poller, listener); err != nil {
					return err
				}
				continue
			}
			n, err := syscall.Read(fd, request)
			if err == syscall.EAGAIN {
				continue
			}
			if err != nil || n == 0 {
				_ = syscall.Close(fd)
				continue
			}
			if _, err := syscall.Write(fd, response); err != nil {
				_ = syscall.Close(fd)
			}
		}
	}
}

func listen(address string) (int, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return -1, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return -1, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return -1, err
	}
	return fd, syscall.Listen(fd, 4096)
}

func accept(poller, listener int) error {
	for {
		fd, _, err := syscall.Accept4(listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if err == syscall.EAGAIN {
			return nil
		}
		if err != nil {
			return err
		}
		if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
			return err
		}
		if err := add(poller, fd, syscall.EPOLLIN|edgeTriggered); err != nil {
			return err
		}
	}
}

func add(poller, fd int, events uint32) error {
	return syscall.EpollCtl(poller, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)})
}
