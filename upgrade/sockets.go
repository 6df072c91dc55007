package upgrade

import (
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/tarehq/tare/internal/listen"
)

// nameOf returns the name under which a socket is passed to new processes.
func nameOf(s listen.Spec) string { return s.Network + " " + s.Address }

// Listen listens on a TCP address or a unix socket: network is "tcp", "tcp4", "tcp6" or "unix". If
// an older process or the service manager has passed a socket with that address, Listen returns
// it. Closing the listener does not disturb other processes. A unix socket's file is removed only
// if no other process has taken over.
func (u *Upgrader) Listen(network, address string) (net.Listener, error) {
	s := listen.Spec{Network: network, Address: address}
	l, err := u.ListenFunc(network, address, func() (net.Listener, error) {
		return listen.One(s, listen.Options{SocketMode: u.options.SocketMode}, new(listen.Passed))
	})
	if err != nil {
		return nil, fmt.Errorf("upgrade: listen %w", err)
	}
	return l, nil
}

// ListenFunc is Listen with a function that opens the socket if none was passed. It returns the
// errors of that function.
func (u *Upgrader) ListenFunc(network, address string, open func() (net.Listener, error)) (net.Listener, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := listen.Spec{Network: network, Address: address}
	switch network {
	case "tcp", "tcp4", "tcp6", "unix":
	default:
		return nil, fmt.Errorf("%s: invalid network %q: want tcp, tcp4, tcp6 or unix", address, network)
	}
	opened := u.find(s)
	if opened.listener == nil {
		l, err := open()
		if err != nil {
			return nil, err
		}
		opened = socket{listener: l, name: nameOf(s), isOwned: true, isNew: true}
	}
	u.setUnlink(opened)
	u.sockets = append(slices.DeleteFunc(u.sockets, isClosedSocket), opened)
	return opened.listener, nil
}

// setUnlink sets whether closing a unix socket removes its file. The service manager removes the
// files of its own sockets. Until this process has taken over, its parent serves those it has
// passed.
func (u *Upgrader) setUnlink(s socket) {
	if l, ok := s.listener.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(s.isOwned && (s.isNew || u.parent == nil))
	}
}

func isClosedSocket(s socket) bool {
	conn, ok := s.listener.(syscall.Conn)
	return ok && isClosedConn(conn)
}

// find finds a passed socket. If there is none, the result has no Listener.
func (u *Upgrader) find(s listen.Spec) socket {
	name := nameOf(s)
	if all, err := u.owned.Named(name); err == nil {
		for _, surplus := range all[1:] {
			surplus.Listener.Close()
		}
		return socket{listener: all[0].Listener, name: name, isOwned: true}
	}
	if found := u.owned.At(s); found.Listener != nil {
		return socket{listener: found.Listener, name: name, isOwned: true}
	}
	found := u.given.At(s)
	return socket{listener: found.Listener, name: found.Name}
}

// CheckUnused returns an error if the program does not use a socket of the service manager. It is
// called before Ready, which closes such sockets.
func (u *Upgrader) CheckUnused() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.given.CheckUnused()
}

// HasParent reports whether this process is replacing another one.
func (u *Upgrader) HasParent() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.parent != nil
}

// Activated returns the sockets that the service manager has passed under a name (socket
// activation, FileDescriptorName in systemd.socket(5)), or all of them if name is empty. It also
// returns them in processes that replace the first one. It fails if there is none.
func (u *Upgrader) Activated(name string) ([]net.Listener, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all, err := u.given.Named(name)
	if err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	var listeners []net.Listener
	for _, s := range all {
		u.sockets = append(u.sockets, socket{listener: s.Listener, name: s.Name})
		listeners = append(listeners, s.Listener)
	}
	return listeners, nil
}

// closeSockets closes the listeners. If a new process has taken over, files of unix sockets stay.
func (u *Upgrader) closeSockets() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.sockets {
		if file, ok := s.listener.(*net.UnixListener); ok && u.state == replaced {
			file.SetUnlinkOnClose(false)
		}
		s.listener.Close()
	}
	for _, s := range u.packets {
		s.conn.Close()
	}
	for _, f := range u.files {
		f.Close()
	}
	u.files = nil
}
