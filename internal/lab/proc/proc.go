// Package proc reads from Linux's /proc what processes use, which belong together, and on which
// addresses they listen. With an eBPF program it counts their system calls.
//
// # Glossary
//
//   - A Usage is what a process has used since it started; a Cost is the difference of two Usages.
//   - A family is the processes of a process group with all their descendants.
package proc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Process is a snapshot of a process.
type Process struct {
	PID, Parent, Group int
	Name               string
	Zombie             bool
	RSS                int64 // resident bytes when it was listed
}

// All returns all processes of the machine.
func All() ([]Process, error) {
	procs, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("proc: %w", err)
	}
	var all []Process
	for _, p := range procs {
		s, err := p.Stat()
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("proc: process %d: %w", p.PID, err)
		}
		all = append(all, Process{
			PID: s.PID, Parent: s.PPID, Group: s.PGRP, Name: s.Comm, Zombie: s.State == "Z" || s.State == "X",
			RSS: int64(s.ResidentMemory()),
		})
	}
	return all, nil
}

// LastPID returns the number of the process or thread that started last on this machine. While it
// is unchanged, none has started.
func LastPID() (int, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("proc: %w", err)
	}
	fields := strings.Fields(string(text))
	pid, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return 0, fmt.Errorf("proc: /proc/loadavg: %w", err)
	}
	return pid, nil
}

// execTime is how long HasEnv waits for a process that begins to execute a program.
const execTime = 50 * time.Millisecond

// HasEnv reports whether the process was started with the variable "NAME=value". Until a process
// has begun to execute its program, the kernel shows no environment, although exec has closed its
// files and its parent goes on.
func (p Process) HasEnv(variable string) bool {
	pr, err := procfs.NewProc(p.PID)
	if err != nil {
		return false
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		env, err := pr.Environ()
		if err != nil || len(env) > 0 {
			return err == nil && slices.Contains(env, variable)
		}
		if program, err := pr.Executable(); err != nil || program == "" || time.Since(began) > execTime {
			return false // a thread of the kernel, or none
		}
	}
}

// gone reports whether an error means that the process has ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// Family returns the living processes of groups and all their descendants, including those that
// have moved to other groups.
func Family(groups ...int) ([]Process, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	return FamilyAmong(all, groups...), nil
}

// FamilyAmong is like Family, but searches a list that All returned before.
func FamilyAmong(all []Process, groups ...int) []Process {
	in := make(map[int]bool)
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !in[p.PID] && (slices.Contains(groups, p.Group) || in[p.Parent]) {
				in[p.PID], grown = true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p Process) bool { return !in[p.PID] || p.Zombie })
}

// Children returns the living processes whose parent is pid.
func Children(pid int) ([]Process, error) {
	all, err := All()
	return slices.DeleteFunc(all, func(p Process) bool { return p.Parent != pid || p.Zombie }), err
}

// Listening returns the addresses on which the processes listen, each with one of these:
// "127.0.0.1:80", or "unix:" and the path of a socket.
func Listening(family []Process) (map[string]Process, error) {
	places := make(map[uint64]string)
	if err := addTCPListeners("/proc/net/tcp", places); err != nil {
		return nil, err
	}
	if err := addTCPListeners("/proc/net/tcp6", places); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
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

// addTCPListeners adds the addresses of listening sockets by inode. The kernel lists these sockets
// first (Documentation/networking/proc_net_tcp.rst). The others are not read: closed connections
// stay in the list for a minute, and 28,000 of them took 0.3 s.
func addTCPListeners(file string, places map[uint64]string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan() // the names of the columns
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		const listen = "0A" // TCP_LISTEN
		if len(fields) < 10 || fields[3] != listen {
			break
		}
		var ip []byte
		var port uint16
		var inode uint64
		if _, err := fmt.Sscanf(fields[1]+" "+fields[9], "%x:%x %d", &ip, &port, &inode); err != nil {
			return fmt.Errorf("proc: %s: %q: %w", file, lines.Text(), err)
		}
		for word := range slices.Chunk(ip, 4) { // words are in this machine's byte order
			binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
		}
		places[inode] = net.JoinHostPort(net.IP(ip).String(), strconv.Itoa(int(port)))
	}
	return lines.Err()
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
