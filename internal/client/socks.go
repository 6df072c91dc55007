package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
)

// SOCKS5 (RFC 1928) and its authentication by user name and password (RFC 1929).
const (
	socksVersion      = 5
	socksAuthVersion  = 1
	socksNoAuth       = 0
	socksPasswordAuth = 2
	socksCmdConnect   = 1
	socksIPv4         = 1
	socksName         = 3
	socksIPv6         = 4
)

// socksTunnel makes a SOCKS5 proxy connect to a key's server. The proxy resolves the name.
func socksTunnel(nc net.Conn, proxy *url.URL, k *key) error {
	port, err := strconv.ParseUint(k.port, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("SOCKS5: invalid port %q", k.port)
	}
	if err := negotiateSocksAuth(nc, proxy.User); err != nil {
		return err
	}
	b := []byte{socksVersion, socksCmdConnect, 0}
	switch ip := net.ParseIP(k.host); { // nil for an address with a zone, which is sent as a name
	case ip.To4() != nil:
		b = append(append(b, socksIPv4), ip.To4()...)
	case ip != nil:
		b = append(append(b, socksIPv6), ip...)
	case len(k.host) > 255:
		return errors.New("SOCKS5: the server's name is longer than 255 bytes")
	default:
		b = append(append(b, socksName, byte(len(k.host))), k.host...)
	}
	if _, err := nc.Write(append(b, byte(port>>8), byte(port))); err != nil {
		return err
	}
	return readSocksReply(nc)
}

// negotiateSocksAuth negotiates the authentication method and logs in.
func negotiateSocksAuth(nc net.Conn, user *url.Userinfo) error {
	hello := []byte{socksVersion, 1, socksNoAuth}
	if user != nil {
		hello = []byte{socksVersion, 2, socksNoAuth, socksPasswordAuth}
	}
	var b [2]byte
	if err := socksExchange(nc, hello, b[:]); err != nil {
		return err
	}
	switch {
	case b[0] != socksVersion:
		return fmt.Errorf("unsupported SOCKS version %d, want 5", b[0])
	case b[1] == socksNoAuth:
		return nil
	case b[1] != socksPasswordAuth || user == nil:
		return errors.New("SOCKS5: the proxy accepts none of the offered authentication methods")
	}
	name := user.Username()
	password, _ := user.Password()
	if name == "" || len(name) > 255 || len(password) > 255 {
		return errors.New("SOCKS5: invalid length of user name or password, want 1 to 255 and 0 to 255 bytes")
	}
	login := append([]byte{socksAuthVersion, byte(len(name))}, name...)
	login = append(append(login, byte(len(password))), password...)
	if err := socksExchange(nc, login, b[:]); err != nil {
		return err
	}
	if b[0] != socksAuthVersion || b[1] != 0 {
		return errors.New("SOCKS5: the proxy rejects user name and password")
	}
	return nil
}

func socksExchange(nc net.Conn, request, response []byte) error {
	if _, err := nc.Write(request); err != nil {
		return err
	}
	_, err := io.ReadFull(nc, response)
	return err
}

// readSocksReply reads the proxy's reply to the connect request.
func readSocksReply(nc net.Conn) error {
	var b [255 + 2]byte // the longest name, and a port
	if _, err := io.ReadFull(nc, b[:4]); err != nil {
		return err
	}
	reasons := [...]string{
		"", "general failure", "connection not allowed", "network unreachable", "host unreachable",
		"connection refused",
		"TTL expired", "command not supported", "address type not supported",
	}
	switch code := int(b[1]); {
	case b[0] != socksVersion:
		return fmt.Errorf("unsupported SOCKS version %d, want 5", b[0])
	case code >= len(reasons):
		return fmt.Errorf("SOCKS5: unknown reply code %d", code)
	case code > 0:
		return errors.New("SOCKS5: " + reasons[code])
	case b[2] != 0:
		return fmt.Errorf("SOCKS5: reserved field is %d, want 0", b[2])
	}
	rest := map[byte]int{socksIPv4: 4, socksIPv6: 16, socksName: 1}[b[3]]
	switch {
	case rest == 0:
		return fmt.Errorf("SOCKS5: unknown address type %d", b[3])
	case b[3] == socksName:
		if _, err := io.ReadFull(nc, b[:1]); err != nil {
			return err
		}
		rest = int(b[0])
	}
	_, err := io.ReadFull(nc, b[:rest+2]) // with the port
	return err
}
