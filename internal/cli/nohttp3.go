//go:build !http3

package cli

import "github.com/tarehq/tare/front/server"

// http3Server returns nil: this build does not serve HTTP/3.
func http3Server() server.HTTP3 { return nil }
