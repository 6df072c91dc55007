//go:build !linux

package poll

import (
	"errors"
	"net/netip"
	"time"
)

// ErrAgain is what Recv and Send return on Linux when they would block.
var ErrAgain = errors.New("poll: would block: try again once the socket is ready")

// Poller is not available on this system.
type Poller struct{}

// New returns errors.ErrUnsupported.
func New() (*Poller, error) { return nil, errors.ErrUnsupported }

// Add returns errors.ErrUnsupported.
func (*Poller) Add(_, _ int) error { return errors.ErrUnsupported }

// AddInput returns errors.ErrUnsupported.
func (*Poller) AddInput(_, _ int) error { return errors.ErrUnsupported }

// AddOutput returns errors.ErrUnsupported.
func (*Poller) AddOutput(_, _ int) error { return errors.ErrUnsupported }

// Wait returns errors.ErrUnsupported.
func (*Poller) Wait(time.Duration) ([]Event, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Poller) Close() error { return nil }

// ErrNoPort is what Connect returns on Linux when no port is left.
var ErrNoPort = errors.New("poll: no port is left for that peer")

// Connect returns errors.ErrUnsupported.
func Connect(netip.Addr, netip.AddrPort) (int, error) { return -1, errors.ErrUnsupported }

// ConnectUnix returns errors.ErrUnsupported.
func ConnectUnix(string) (int, error) { return -1, errors.ErrUnsupported }

// ConnectError returns errors.ErrUnsupported.
func ConnectError(int) error { return errors.ErrUnsupported }

// Recv returns errors.ErrUnsupported.
func Recv(int, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Send returns errors.ErrUnsupported.
func Send(int, []byte) (int, error) { return 0, errors.ErrUnsupported }

// AckNow does nothing.
func AckNow(int) {}

// Close returns errors.ErrUnsupported.
func Close(int) error { return errors.ErrUnsupported }

// Reset returns errors.ErrUnsupported.
func Reset(int) error { return errors.ErrUnsupported }
