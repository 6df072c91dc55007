package shard

import (
	"net"
	"os"
	"sync"

	"github.com/tarehq/tare/internal/poll"
)

// Hijack implements exchange.Connection. The handler receives a connection of package net, with a
// descriptor of its own. If none can be made, nothing changes, and the loop still serves the
// connection.
func (k *shardConn) Hijack() (net.Conn, error) {
	nc, err := k.hijack()
	if err != nil {
		return nil, err
	}
	k.MayBlock()
	k.conn.ReleaseHijacked()
	_ = k.Close() // closes this descriptor; the handler has another
	return nc, nil
}

// hijack returns a connection with another descriptor. The loop no longer reports this one.
func (k *shardConn) hijack() (net.Conn, error) {
	if !k.acquire() {
		return nil, net.ErrClosed
	}
	defer k.release()
	if k.tls != nil { // the client decrypts records only in their order
		if err := k.sendCiphertext(); err != nil {
			return nil, err
		}
	}
	nc, err := k.duplicate()
	for range 2 { // FileConn duplicates the descriptor a second time
		if outOfDescriptors(err) {
			k.group().shedIdle()
			nc, err = k.duplicate()
		}
	}
	if err != nil {
		return nil, err
	}
	_ = k.shard().loop.Remove(int(k.fd)) // fails if the loop does not have it
	if t := k.tls; t != nil {
		t.Conn, t.isTaken = nc, true
		return t.conn, nil
	}
	return nc, nil
}

// duplicate makes a connection of package net from a duplicate of the descriptor. FileConn needs so
// much stack that the handler's goroutine would keep 8 KB in place of 4 KB.
func (k *shardConn) duplicate() (nc net.Conn, err error) {
	fd, err := poll.Dup(int(k.fd))
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	var other sync.WaitGroup
	other.Go(func() {
		f := os.NewFile(uintptr(fd), "")
		defer f.Close()
		nc, err = net.FileConn(f) // which makes another duplicate
	})
	other.Wait()
	return nc, err
}
