//go:build !linux

package poll

import (
	"errors"
	"net/netip"
	"time"
)

// ErrAgain is what Recv and Send return on Linux when they would block.
var ErrAgain = errors.New("poll: would block: try again once the socket is ready")

// ErrNoPort is what Connect returns on Linux when no port is left.
var ErrNoPort = errors.New("poll: no port is left for that peer")

// Poller is not available on this system: New fails, and so does all else.
type Poller struct{}

func New() (*Poller, error)                           { return nil, errors.ErrUnsupported }
func (*Poller) Add(_, _ int) error                    { return errors.ErrUnsupported }
func (*Poller) AddInput(_, _ int) error               { return errors.ErrUnsupported }
func (*Poller) AddOutput(_, _ int) error              { return errors.ErrUnsupported }
func (*Poller) Wait(time.Duration) ([]Event, error)   { return nil, errors.ErrUnsupported }
func (*Poller) Close() error                          { return nil }
func Connect(netip.Addr, netip.AddrPort) (int, error) { return -1, errors.ErrUnsupported }
func ConnectUnix(string) (int, error)                 { return -1, errors.ErrUnsupported }
func ConnectError(int) error                          { return errors.ErrUnsupported }
func Recv(int, []byte) (int, error)                   { return 0, errors.ErrUnsupported }
func Send(int, []byte) (int, error)                   { return 0, errors.ErrUnsupported }
func AckNow(int)                                      {}
func Close(int) error                                 { return errors.ErrUnsupported }
func Reset(int) error                                 { return errors.ErrUnsupported }
