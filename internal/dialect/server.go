package dialect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Server is the server of a URL.
type Server struct {
	Scheme string // http or https
	Host   string // with the brackets of an IPv6 address
	Port   int
}

// ParseServer parses the host[:port] of a URL.
func ParseServer(scheme, authority string) (s Server, err error) {
	s = Server{scheme, authority, defaultPort(scheme)}
	if colon := strings.LastIndexByte(authority, ':'); colon >= 0 && !strings.HasSuffix(authority, "]") {
		s.Host = authority[:colon]
		if s.Port, err = Number(authority[colon+1:], 1, 65535); err != nil {
			return s, fmt.Errorf("port %w", err)
		}
	}
	if s.Host == "" {
		return s, errors.New("want a host")
	}
	return s, nil
}

func defaultPort(scheme string) int {
	if scheme == "https" {
		return 443
	}
	return 80
}

// Hostname returns the host without brackets.
func (s Server) Hostname() string { return strings.Trim(s.Host, "[]") }

// Authority returns the host and the port, also if that is the scheme's.
func (s Server) Authority() string { return s.Host + ":" + strconv.Itoa(s.Port) }

// HostLine returns the header field Host.
func (s Server) HostLine() string {
	if s.Port == defaultPort(s.Scheme) {
		return "Host: " + s.Host
	}
	return "Host: " + s.Authority()
}
