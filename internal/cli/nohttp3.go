//go:build !http3

package cli

import "github.com/tarehq/tare/front/server"

func http3Server() server.HTTP3 { return nil }
