package proc

import (
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// Listening returns the addresses on which the processes listen, each with one of these:
// "127.0.0.1:80", or "unix:" and the path of a socket.
func Listening(family []Process) (map[string]Process, error) {
	places := make(map[uint64]string)
	four, err := read(procfs.FS.NetTCP) //nolint:staticcheck // netlink would be another dependency for one table
	if err != nil {
		return nil, err
	}
	six, err := read(procfs.FS.NetTCP6) //nolint:staticcheck // likewise
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	const listen = 0x0a // TCP_LISTEN
	for _, line := range slices.Concat(four, six) {
		if line.St == listen {
			places[line.Inode] = net.JoinHostPort(line.LocalAddr.String(), strconv.FormatUint(line.LocalPort, 10))
		}
	}
	unix, err := read(procfs.FS.NetUNIX)
	if err != nil {
		return nil, err
	}
	const accepts = 1 << 16 // __SO_ACCEPTCON
	for _, line := range unix.Rows {
		if line.Flags&accepts != 0 && line.Path != "" {
			places[line.Inode] = "unix:" + line.Path
		}
	}
	all := make(map[string]Process)
	for _, p := range family {
		for _, inode := range sockets(p) {
			if place := places[inode]; place != "" {
				all[place] = p
			}
		}
	}
	return all, nil
}

// sockets returns the inodes of a process's open sockets. It returns none if the process has ended
// or belongs to another user: this program starts no such processes.
func sockets(p Process) (inodes []uint64) {
	pr, err := procfs.NewProc(p.PID)
	if err != nil {
		return nil
	}
	targets, err := pr.FileDescriptorTargets()
	if err != nil {
		return nil
	}
	for _, target := range targets {
		inode, ok := strings.CutPrefix(target, "socket:[")
		if n, err := strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 64); ok && err == nil {
			inodes = append(inodes, n)
		}
	}
	return inodes
}
