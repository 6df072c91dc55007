package h2

import (
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/poison"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// Config holds the settings of one Serve call that concern HTTP/2. Their defaults and bounds are
// those of net/http.
type Config struct {
	Exchanges *exchange.Config

	maxStreams   uint32
	maxFrameSize uint32
	connWindow   int32
	streamWindow int32
	tableSize    uint32 // of the decoder

	// SendPingTimeout is how long nothing may arrive before a PING is sent; 0 for no limit.
	SendPingTimeout time.Duration
	pingTimeout     time.Duration
	// writeByteTimeout limits how long a client may accept nothing; 0 for no limit.
	writeByteTimeout time.Duration
	countError       func(string)

	buffers    sync.Pool       // of *outBuffer; an idle session has none
	headBlocks sync.Pool       // of *wire.HeaderBlock, while heads are decoded
	conns      *exchange.Conns // for streams while their handlers run

	// ExtendedConnect offers extended CONNECT (RFC 8441) to clients.
	ExtendedConnect bool
	// IgnoresPriority serves streams in turns, whatever priority the client gives them.
	IgnoresPriority bool
	// PermitsProhibitedCiphers permits cipher suites that RFC 9113 forbids.
	PermitsProhibitedCiphers bool
}

// Defaults of http.HTTP2Config's zero fields.
const (
	defaultMaxStreams = 250
	defaultWindow     = 1 << 20
	// defaultMaxFrameSize is that of the protocol, as in nginx. net/http's is 1 MB. DATA takes
	// effect as it arrives, so that larger frames would gain nothing, and heads must fit one
	// frame in memory.
	defaultMaxFrameSize = wire.MinMaxFrameSize
	defaultTableSize    = 4096
	maxTableSize        = 64 << 10
	defaultPingTimeout  = 15 * time.Second
)

// NewConfig returns the settings. set may be nil, and maxHeaderBytes zero for the default.
func NewConfig(x *exchange.Config, set *http.HTTP2Config, maxHeaderBytes int) *Config {
	if set == nil {
		set = new(http.HTTP2Config)
	}
	own := *x
	// HasConnFields is for Connection, which Delimit needs. AppendField drops all such fields. The
	// size is net/http's.
	own.Protocol = exchange.Protocol{HoldSize: 4 << 10,
		Traits: exchange.Traits{HasInterim: true, HasConnFields: true, HasLengthsWithTrailers: true}}
	if maxHeaderBytes <= 0 {
		maxHeaderBytes = http.DefaultMaxHeaderBytes
	}
	const fieldOverhead, typicalFields = 32, 10 // net/http adds these to a limit of HTTP/1
	own.Limits.Bytes = min(maxHeaderBytes, math.MaxInt32) + fieldOverhead*typicalFields
	return &Config{
		Exchanges:  &own,
		conns:      exchange.NewConns(&own, 0, false),
		maxStreams: uint32(within(set.MaxConcurrentStreams, 1, math.MaxInt32, defaultMaxStreams)),
		maxFrameSize: uint32(within(set.MaxReadFrameSize, wire.MinMaxFrameSize, wire.MaxFrameSize,
			defaultMaxFrameSize)),
		connWindow: int32(within(set.MaxReceiveBufferPerConnection, wire.InitialWindow, wire.MaxWindow,
			defaultWindow)),
		streamWindow: int32(within(set.MaxReceiveBufferPerStream, 1, wire.MaxWindow, defaultWindow)),
		tableSize:    uint32(within(set.MaxDecoderHeaderTableSize, 1, maxTableSize, defaultTableSize)),

		SendPingTimeout:  max(0, set.SendPingTimeout),
		pingTimeout:      within(set.PingTimeout, 1, math.MaxInt64, defaultPingTimeout),
		writeByteTimeout: max(0, set.WriteByteTimeout),
		countError:       set.CountError,

		PermitsProhibitedCiphers: set.PermitProhibitedCipherSuites,
	}
}

// settings returns what the client receives first.
func (p *Config) settings() []wire.Setting {
	all := []wire.Setting{
		{ID: wire.MaxFrameSizeSetting, Value: p.maxFrameSize},
		{ID: wire.MaxConcurrentStreams, Value: p.maxStreams},
		{ID: wire.MaxHeaderListSize, Value: uint32(p.Exchanges.Limits.Bytes)},
		{ID: wire.HeaderTableSize, Value: p.tableSize},
		{ID: wire.InitialWindowSize, Value: uint32(p.streamWindow)},
		{ID: wire.NoRFC7540Priorities, Value: 1},
	}
	if p.ExtendedConnect {
		all = append(all, wire.Setting{ID: wire.EnableConnectProtocol, Value: 1})
	}
	return all
}

// SendLimit returns how long a client may accept nothing; 0 for no limit. writeTimeout is
// WriteTimeout, unless a handler has replaced it.
func (p *Config) SendLimit(writeTimeout time.Duration) (limit time.Duration) {
	for _, d := range [...]time.Duration{p.Exchanges.DefaultSendTimeout, p.writeByteTimeout, writeTimeout} {
		if d > 0 && (limit == 0 || d < limit) {
			limit = d
		}
	}
	return limit
}

func (p *Config) headBlock() *wire.HeaderBlock {
	if b, ok := p.headBlocks.Get().(*wire.HeaderBlock); ok {
		return b
	}
	return new(wire.HeaderBlock)
}

func (p *Config) keepHeadBlock(b *wire.HeaderBlock) {
	b.Trim()
	poison.Fill(b.Text)
	p.headBlocks.Put(b)
}

// within returns v, or def if v is out of bounds.
func within[T int | time.Duration](v, least, most, def T) T {
	if v < least || v > most {
		return def
	}
	return v
}
