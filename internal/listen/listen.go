// Package listen makes listeners of what people write on a command line: TCP addresses, unix sockets, and
// sockets that the service manager has opened.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/safefile"
)

const (
	unixPrefix = "unix:"
	// abstract begins the name of a unix socket that is in no folder (unix(7)).
	abstract = "@"
	// Systemd asks for all sockets that the service manager passed; with a colon and a name behind it, for those
	// of that name.
	Systemd = "systemd"
	// maxUnixPath is what the kernel takes, sun_path without its final zero.
	maxUnixPath = 107
)

// Spec is where to listen.
type Spec struct {
	// Network is "tcp", "tcp4" or "tcp6" for addresses of one version only, "unix" or Systemd.
	Network string
	// Address is host:port, the path of a socket, or the name of those that were passed, if only some
	// are meant.
	Address string
}

// Parse reads HOST:PORT, :PORT, [IPV6]:PORT, unix:PATH, systemd or systemd:NAME.
func Parse(text string) (Spec, error) {
	if path, ok := strings.CutPrefix(text, unixPrefix); ok {
		if path == "" || len(path) > maxUnixPath {
			return Spec{}, fmt.Errorf("%q: want a path of 1 to %d bytes behind %s", text, maxUnixPath, unixPrefix)
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

// Port is all addresses of the machine at a port.
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

// Options are what listeners can be told.
type Options struct {
	// SocketMode are the permissions of unix sockets that are made.
	SocketMode fs.FileMode
	// Stall is how long a TCP client may leave what it was sent unread, or the network undelivered, before its
	// connection is reset; 0 leaves that to the system. The kernel sees to it, on Linux.
	Stall time.Duration
	// Backlog is how many connections wait to be accepted, at most; 0 is the system's number. ReusePort lets other sockets have
	// the same TCP address (socket(7)).
	Backlog   int
	ReusePort bool
}

// One listens on one address that is not Systemd's. If a socket of that address was passed it is that one.
func One(s Spec, o Options, passed *Passed) (net.Listener, error) {
	l, err := passed.at(s)
	if l == nil && err == nil {
		l, err = open(s, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, reason(err))
	}
	if err := o.apply(l); err != nil {
		l.Close()
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return l, nil
}

// All listens on all of specs, or on none. passed are the sockets that the process was given; those that
// are asked for become listeners, and it is an error if one is not.
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
		var some []net.Listener
		switch s.Network {
		case Systemd:
			some, err = passed.take(s.Address)
		default:
			some, err = one(open(s, o))
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", s, reason(err))
		}
		all = append(all, some...)
		for _, l := range some {
			if err := o.apply(l); err != nil {
				return all, fmt.Errorf("%s: %w", s, err)
			}
		}
	}
	return all, passed.Rest()
}

func open(s Spec, o Options) (net.Listener, error) {
	if s.Network == "unix" {
		return onSocket(s.Address, o.SocketMode)
	}
	return overTCP(s, o)
}

// overTCP listens without Multipath TCP, which package net would use: its sockets know no Stall.
func overTCP(s Spec, o Options) (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	if o.ReusePort {
		c.Control = reusePort
	}
	return c.Listen(context.Background(), s.Network, s.Address)
}

// apply sets what a socket that listens can be told.
func (o Options) apply(l net.Listener) error {
	if t, ok := l.(*net.TCPListener); ok && o.Stall > 0 {
		if err := limitStalls(t, o.Stall); err != nil {
			return err
		}
	}
	if o.Backlog > 0 {
		return setBacklog(l, o.Backlog)
	}
	return nil
}

func one(l net.Listener, err error) ([]net.Listener, error) {
	if err != nil {
		return nil, err
	}
	return []net.Listener{l}, nil
}

// reason is what went wrong, without the words that repeat what was asked for, and with what to do.
func reason(err error) error {
	why := err
	if op, ok := errors.AsType[*net.OpError](err); ok {
		why = op.Err
	}
	switch {
	case isInUse(why):
		return errors.New("in use by another process; end it or choose another")
	case errors.Is(why, fs.ErrPermission):
		return fmt.Errorf("%w; ports below 1024 and some folders need privilege: start as root with --user", why)
	}
	return why
}

// onSocket listens on a unix socket. One that is left over, to which nobody listens, is removed.
func onSocket(path string, mode fs.FileMode) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if err != nil && isInUse(err) && isLeftOver(path) {
		if err := safefile.Remove(path); err != nil {
			return nil, err
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(path, abstract) {
		return l, nil // and has no permissions
	}
	if err := safefile.ChmodSocket(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// isLeftOver reports whether path is a socket and nobody listens to it.
func isLeftOver(path string) bool {
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
