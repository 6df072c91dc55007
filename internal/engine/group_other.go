//go:build !linux

package engine

import "net"

// onShard is what a conn has more where there are shards.
type onShard struct{}

// home is empty where there are no shards.
type home struct{}

// group is empty where there are no shards.
type group struct{}

func (s *Server) socketAcceptor(*plan, net.Listener) func() error { return nil }

func (*group) open() int64       { return 0 }
func (*group) closeWaiting() int { return 0 }
func (*group) closeAll()         {}
func (*group) stop()             {}

// giveUpLead does nothing where no handler runs on a loop.
func (*conn) giveUpLead() {}
