package upgrade

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/listen"
)

// ListenPacket is Listen for UDP: network is "udp", "udp4" or "udp6".
//
// Processes that share a UDP socket take packets from each other. The old process must stop reading
// in a function of OnHandover, and the new one must not read before Ready returns. If a protocol
// has connections, the new process must forward packets of the old one's: AddFile passes a socket
// for that.
func (u *Upgrader) ListenPacket(network, address string) (*net.UDPConn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := listen.Spec{Network: network, Address: address}
	switch network {
	case "udp", "udp4", "udp6":
	default:
		return nil, fmt.Errorf("upgrade: listen %s: invalid network %q: want udp, udp4 or udp6", address, network)
	}
	conn, err := listen.Packets(s, u.owned, u.given)
	if err != nil {
		return nil, fmt.Errorf("upgrade: listen %w", err)
	}
	u.add(socket{conn: conn, name: nameOf(s), isOwned: true})
	return conn, nil
}

// PassedPackets returns the UDP sockets that the process that this one replaces has passed, and
// that ListenPacket has not returned. That process has stopped reading from them, so this one must
// forward its packets. They are passed on like those of ListenPacket. It is called before Ready,
// which closes the rest.
func (u *Upgrader) PassedPackets() (all []*net.UDPConn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.owned.TakePackets() {
		all = append(all, s.Packets)
		u.add(socket{conn: s.Packets, name: s.Name, isOwned: true})
	}
	return all
}

// AddFile passes an open file to each process that is started from now on: Files returns it there.
// Its name is that of os.NewFile. It belongs to the Upgrader.
func (u *Upgrader) AddFile(f *os.File) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.files = append(u.files, f)
}

// Files returns the files with a prefix in their names that the process that this one replaces has
// passed. They belong to the caller, and are returned once. "" is the prefix of all of them. Run
// closes the rest when it begins.
func (u *Upgrader) Files(prefix string) (found []*os.File) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.passedFiles = slices.DeleteFunc(u.passedFiles, func(f *os.File) bool {
		has := strings.HasPrefix(f.Name(), prefix)
		if has {
			found = append(found, f)
		}
		return has
	})
	return found
}

// OnHandover makes Upgrade call stop when the new process is ready, just before it begins to serve.
// If that process has failed by then, resume is called, and this process serves on. remove undoes
// OnHandover.
func (u *Upgrader) OnHandover(stop, resume func()) (remove func()) {
	h := &handoverHook{stop, resume}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hooks = append(u.hooks, h)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.hooks = slices.DeleteFunc(u.hooks, func(other *handoverHook) bool { return other == h })
	}
}

// handoverHook is what OnHandover has added.
type handoverHook struct{ stop, resume func() }

// RemoveFile ends what AddFile has begun, and closes the file.
func (u *Upgrader) RemoveFile(f *os.File) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.files = slices.DeleteFunc(u.files, func(other *os.File) bool { return other == f })
	f.Close()
}
