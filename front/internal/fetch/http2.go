package fetch

import (
	"net/http"
	"time"

	"github.com/tarehq/tare/internal/client"
)

const (
	// pingAfter is how long an HTTP/2 connection to an upstream may be silent while requests use it
	// before it is checked by a PING, and pingTimeout how long the response to that may take.
	// Servers of gRPC close connections that send PINGs more often than every 5 minutes.
	pingAfter   = 5*time.Minute + 15*time.Second
	pingTimeout = 15 * time.Second
	// streamWindow bounds the part of a response that has arrived and that nobody has read.
	streamWindow = 512 << 10
)

func http2Config(k KeepAlive, usesTLS bool) *client.Config {
	settings := clientConfig(k)
	protocols := new(http.Protocols)
	protocols.SetHTTP2(usesTLS)
	protocols.SetUnencryptedHTTP2(!usesTLS)
	settings.Settings.Protocols = protocols
	settings.Settings.MaxIdleConnsPerHost = 0 // connections are shared: keepalive does not apply
	settings.Settings.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
		MaxReceiveBufferPerStream: streamWindow}
	return settings
}
