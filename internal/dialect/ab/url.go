package ab

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

type targetURL struct {
	secure bool
	host   string // without the brackets of IPv6
	field  string // value of Host without the port
	port   uint16
	path   string
}

var errNoPath = errors.New("want a path after the host, at least /")

// parseURL parses [http[s]://]host[:port]/path.
func parseURL(text string) (to targetURL, err error) {
	rest, secure := strings.CutPrefix(text, "https://")
	rest = strings.TrimPrefix(rest, "http://")
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return targetURL{}, errNoPath
	}
	to = targetURL{secure: secure, host: rest[:slash], port: 80, path: rest[slash:]}
	if secure {
		to.port = 443
	}
	if host, port, splitErr := net.SplitHostPort(to.host); splitErr == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return targetURL{}, fmt.Errorf("port %q: want a number from 1 to 65535", port)
		}
		to.host, to.port = host, uint16(n)
	}
	to.host = strings.TrimSuffix(strings.TrimPrefix(to.host, "["), "]")
	if to.host == "" {
		return targetURL{}, errors.New("want a host")
	}
	to.field = to.host
	if strings.Contains(to.host, ":") {
		to.field = "[" + to.host + "]"
	}
	return to, nil
}

func (p *targetURL) url() string {
	scheme := "http"
	if p.secure {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s:%d%s", scheme, p.field, p.port, p.path)
}

func (p *targetURL) hostLine() string {
	if p.port == 80 && !p.secure || p.port == 443 && p.secure {
		return "Host: " + p.field
	}
	return fmt.Sprintf("Host: %s:%d", p.field, p.port)
}
