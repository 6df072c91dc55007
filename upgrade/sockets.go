package upgrade

import (
	"fmt"
	"net"
	"net/url"

	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/sdnotify"
)

// namePrefix begins the names of sockets that Listen has opened.
const namePrefix = "listen-"

// nameOf returns the name under which a socket is passed on: to new processes, and to the store of
// the service manager, where it must be printable and without colons.
func nameOf(s listen.Spec) string { return namePrefix + url.QueryEscape(s.Network+" "+s.Address) }

func unescape(name string) string {
	if text, err := url.QueryUnescape(name); err == nil {
		return text
	}
	return name
}

// Listen listens on a TCP address or a unix socket: network is "tcp", "tcp4", "tcp6" or "unix". If
// an older process or the service manager has passed a socket with that address, Listen returns
// it. Closing the listener does not disturb other processes. A unix socket's file is removed only
// if no other process has taken over.
func (u *Upgrader) Listen(network, address string) (net.Listener, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := listen.Spec{Network: network, Address: address}
	switch network {
	case "tcp", "tcp4", "tcp6", "unix":
	default:
		return nil, fmt.Errorf("upgrade: listen %s %s: want network tcp, tcp4, tcp6 or unix", network, address)
	}
	opened, err := u.open(s)
	if err != nil {
		return nil, fmt.Errorf("upgrade: listen %s: %w", s, err)
	}
	if file, ok := opened.Listener.(*net.UnixListener); ok {
		// the service manager removes its own sockets
		file.SetUnlinkOnClose(opened.isOwned && !u.stores())
	}
	u.sockets = append(u.sockets, opened)
	return opened.Listener, nil
}

// open finds a passed socket, or opens one.
func (u *Upgrader) open(s listen.Spec) (socket, error) {
	name := nameOf(s)
	for _, passed := range []*listen.Passed{u.owned, u.given} {
		isOwned := passed == u.owned
		if passed.Has(name) {
			all, err := passed.Named(name)
			if err != nil {
				return socket{}, err
			}
			for _, surplus := range all[1:] {
				surplus.Close()
			}
			// a socket with such a name comes back from the store
			return socket{all[0].Listener, name, true}, nil
		}
		found := passed.At(s)
		if found.Listener != nil && isOwned {
			return socket{found.Listener, name, true}, nil
		} else if found.Listener != nil {
			return socket{found.Listener, found.Name, false}, nil
		}
	}
	l, err := listen.One(s, listen.Options{SocketMode: u.options.SocketMode}, new(listen.Passed))
	return socket{l, name, true}, err
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
		u.sockets = append(u.sockets, socket{s.Listener, s.Name, false})
		listeners = append(listeners, s.Listener)
	}
	return listeners, nil
}

// stores reports whether the service manager keeps the sockets.
func (u *Upgrader) stores() bool { return u.options.StoreSockets && sdnotify.IsEnabled() }

// store passes the sockets to the service manager. It ignores those that it has already.
func (u *Upgrader) store() {
	if !u.stores() {
		return
	}
	for _, s := range u.sockets {
		if !s.isOwned {
			continue // a socket unit has it
		}
		if !sdnotify.IsName(s.name) {
			u.options.Logger.Error("upgrade: storing a socket: its address is too long", "socket", displayName(s.name))
			continue
		}
		file, err := listen.Duplicate(s.Listener)
		if err == nil {
			err = sdnotify.Store(s.name, file)
			file.Close()
		}
		u.logIfFailed("storing a socket", err)
	}
}

// closeSockets closes the listeners. If a new process has taken over, files of unix sockets stay.
func (u *Upgrader) closeSockets() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.sockets {
		if file, ok := s.Listener.(*net.UnixListener); ok && u.state == replaced {
			file.SetUnlinkOnClose(false)
		}
		s.Close()
	}
}
