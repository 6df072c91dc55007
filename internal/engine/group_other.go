//go:build !linux

package engine

// placement is empty where there are no shards.
type placement struct{}

// group is empty where there are no shards.
type group struct{}

func (s *Server) socketAcceptor(*serveConfig, *onceCloseListener) func() error { return nil }

func (*group) open() int64    { return 0 }
func (*group) closeIdle() int { return 0 }
func (*group) closeAll()      {}
func (*group) stop()          {}
func (*group) stopIfDone()    {}
