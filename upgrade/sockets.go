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
	found, isOwned := u.find(s)
	if found.Listener != nil {
		u.add(socket{conn: found.Listener, name: found.Name, isOwned: isOwned})
		return found.Listener, nil
	}
	l, err := open()
	if err == nil {
		u.add(socket{conn: l, name: nameOf(s), isOwned: true, isNew: true})
	}
	return l, err
}

// add adds a socket to those that are passed on, in place of closed ones.
func (u *Upgrader) add(s socket) {
	u.setUnlink(s)
	u.sockets = append(slices.DeleteFunc(u.sockets, isClosedSocket), s)
}

// setUnlink sets whether closing a unix socket removes its file. The service manager removes the
// files of its own sockets. Until this process has taken over, its parent serves those it has
// passed.
func (u *Upgrader) setUnlink(s socket) {
	if l, ok := s.conn.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(s.isOwned && (s.isNew || u.parent == nil))
	}
}

// isClosedSocket reports whether the program has closed a socket.
func isClosedSocket(s socket) bool {
	conn, ok := s.conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// find finds a passed socket, with the name under which it is passed on. If there is none, the
// result has no Listener.
func (u *Upgrader) find(s listen.Spec) (found listen.Socket, isOwned bool) {
	name := nameOf(s)
	if all, err := u.owned.Named(name); err == nil {
		for _, surplus := range all[1:] {
			surplus.Listener.Close()
		}
		return all[0], true
	}
	if found = u.owned.At(s); found.Listener != nil {
		found.Name = name
		return found, true
	}
	return u.given.At(s), false
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
		u.add(socket{conn: s.Listener, name: s.Name})
		listeners = append(listeners, s.Listener)
	}
	return listeners, nil
}

// closeSockets closes the sockets. If a new process has taken over, files of unix sockets stay.
func (u *Upgrader) closeSockets() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.sockets {
		if file, ok := s.conn.(*net.UnixListener); ok && u.state == replaced {
			file.SetUnlinkOnClose(false)
		}
		s.conn.Close()
	}
	for _, f := range u.files {
		f.Close()
	}
	u.files = nil
}
