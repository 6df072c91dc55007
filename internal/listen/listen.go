// Package listen makes listeners from the addresses that users write: TCP addresses, unix sockets,
// and sockets that the service manager has passed (systemd socket activation, sd_listen_fds(3)).
package listen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/tarehq/tare/internal/safefile"
)

const (
	unixPrefix = "unix:"
	// abstractPrefix starts the name of an abstract unix socket, which has no path (unix(7)).
	abstractPrefix = "@"
	// Systemd stands for all sockets that the service manager has passed. Systemd, a colon and
	// a name stand for those with that name.
	Systemd = "systemd"
	// maxUnixPath is the longest path of a unix socket: sun_path without its final zero.
	maxUnixPath = 107
)

// Spec specifies where to listen.
type Spec struct {
	// Network is "tcp", "tcp4", "tcp6", "unix" or Systemd.
	Network string
	// Address is host:port, the path of a socket, or the name of passed sockets; "" for all of
	// them.
	Address string
}

// Parse parses HOST:PORT, :PORT, [IPV6]:PORT, unix:PATH, systemd or systemd:NAME.
func Parse(text string) (Spec, error) {
	if path, ok := strings.CutPrefix(text, unixPrefix); ok {
		if path == "" || len(path) > maxUnixPath {
			return Spec{}, fmt.Errorf("%q: want a path of 1 to %d bytes after %s", text, maxUnixPath, unixPrefix)
		}
		return Spec{"unix", path}, nil
	}
	if text == Systemd {
		return Spec{Systemd, ""}, nil
	}
	if name, ok := strings.CutPrefix(text, Systemd+":"); ok && name != "" {
		return Spec{Systemd, name}, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		err = checkPort(port)
	}
	if err != nil || strings.Contains(host, "/") {
		return Spec{}, fmt.Errorf("%q: want HOST:PORT, :PORT, [IPV6]:PORT, unix:PATH or systemd", text)
	}
	return Spec{"tcp", text}, nil
}

func checkPort(port string) error {
	_, err := strconv.ParseUint(port, 10, 16)
	return err
}

// Port returns the Spec of a port on all addresses.
func Port(port uint16) Spec { return Spec{"tcp", ":" + strconv.Itoa(int(port))} }

func (s Spec) String() string {
	switch {
	case s.Network == "unix":
		return unixPrefix + s.Address
	case s.Network == Systemd && s.Address != "":
		return Systemd + ":" + s.Address
	case s.Network == Systemd:
		return Systemd
	}
	return s.Address
}

// Options are settings of listeners.
type Options struct {
	// SocketMode is the permissions of new unix sockets.
	SocketMode fs.FileMode
	// Backlog is the maximum number of connections that wait to be accepted; 0 is the system's
	// default. ReusePort allows other sockets with the same TCP address (socket(7)).
	Backlog   int
	ReusePort bool
}

// One listens on one address, whose network is not Systemd. If a socket with that address was
// passed, it returns that socket.
func One(s Spec, o Options, passed *Passed) (net.Listener, error) {
	l := passed.At(s).Listener
	if l == nil {
		var err error
		if l, err = open(s, o); err != nil {
			return nil, fmt.Errorf("%s: %w", s, explain(err))
		}
	}
	if err := o.Apply(l, Options{}); err != nil {
		l.Close()
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return l, nil
}

// All listens on all of specs, or on none. passed are the sockets that the process has received. If
// specs do not use all of them, All fails.
func All(specs []Spec, o Options, passed *Passed) (all []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				l.Close()
			}
			all = nil
		}
	}()
	for _, s := range specs {
		if s.Network != Systemd {
			l, err := One(s, o, passed)
			if err != nil {
				return all, err
			}
			all = append(all, l)
			continue
		}
		some, err := passed.Named(s.Address)
		if err != nil {
			return all, fmt.Errorf("%s: %w", s, err)
		}
		for _, socket := range some {
			all = append(all, socket.Listener)
		}
	}
	return all, passed.CheckUnused()
}

func open(s Spec, o Options) (net.Listener, error) {
	if s.Network == "unix" {
		return listenUnix(s.Address, o.SocketMode)
	}
	return listenTCP(s, o)
}

// listenTCP listens without Multipath TCP, which package net would use: connections do not inherit
// the options of its sockets.
func listenTCP(s Spec, o Options) (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	if o.ReusePort {
		c.Control = func(_, _ string, raw syscall.RawConn) error { return setReusePort(raw, true) }
	}
	return c.Listen(context.Background(), s.Network, s.Address)
}

// defaultBacklog is more than systems allow: they use the maximum, as package net does.
const defaultBacklog = 1<<16 - 1

// Apply applies Backlog and ReusePort to an open socket that has had other ones.
func (o Options) Apply(l net.Listener, before Options) error {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	if o.Backlog != before.Backlog {
		err = setBacklog(raw, cmp.Or(o.Backlog, defaultBacklog))
	}
	if _, isTCP := l.(*net.TCPListener); isTCP && o.ReusePort != before.ReusePort {
		err = errors.Join(err, setReusePort(raw, o.ReusePort))
	}
	return err
}

// ErrInUse reports that a socket has the address already, or all addresses of its port.
var ErrInUse = errors.New("in use by another process (stop it, or choose another address)")

// explain returns the cause of err, without repeating the address, and with a remedy.
func explain(err error) error {
	why := err
	if op, ok := errors.AsType[*net.OpError](err); ok {
		why = op.Err
	}
	switch {
	case isInUse(why):
		return ErrInUse
	case errors.Is(why, fs.ErrPermission):
		return fmt.Errorf("%w (ports below 1024 and some directories require root, or use systemd socket activation)",
			why)
	}
	return why
}

// listenUnix listens on a unix socket. It replaces a stale socket, on which no process listens.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if err != nil && isInUse(err) && isStale(path) {
		if err := safefile.Remove(path); err != nil {
			return nil, err
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(path, abstractPrefix) {
		return l, nil // which has no permissions
	}
	if err := safefile.ChmodSocket(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// isStale reports whether path is a socket on which no process listens.
func isStale(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	var d net.Dialer
	c, err := d.DialContext(context.Background(), "unix", path)
	if err == nil {
		c.Close()
		return false
	}
	return isRefused(err)
}
