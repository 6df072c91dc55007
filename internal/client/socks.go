package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"
)

// What a SOCKS5 client and proxy say to each other (RFC 1928, RFC 1929).
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

// socks has a SOCKS5 proxy connect to a key's server. Names are left to the proxy.
func socksTunnel(_ context.Context, nc net.Conn, proxy *url.URL, k *key) error {
	if err := negotiateSocksAuth(nc, proxy.User); err != nil {
		return err
	}
	port, err := strconv.ParseUint(k.port, 10, 16)
	if err != nil {
		return fmt.Errorf("%q is no port", k.port)
	}
	b := []byte{socksVersion, socksCmdConnect, 0}
	switch ip, err := netip.ParseAddr(k.host); {
	case err == nil && ip.Is4():
		b = append(append(b, socksIPv4), ip.AsSlice()...)
	case err == nil:
		b = append(append(b, socksIPv6), ip.AsSlice()...)
	case len(k.host) > 255:
		return errors.New("the server's name is too long for SOCKS5")
	default:
		b = append(append(b, socksName, byte(len(k.host))), k.host...)
	}
	if _, err := nc.Write(append(b, byte(port>>8), byte(port))); err != nil {
		return err
	}
	return readSocksReply(nc)
}

// socksMethod agrees on who we are.
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
		return fmt.Errorf("SOCKS version %d, want 5", b[0])
	case b[1] == socksNoAuth:
		return nil
	case b[1] != socksPasswordAuth || user == nil:
		return errors.New("SOCKS5: the proxy accepts no way of authentication that there is here")
	}
	name := user.Username()
	password, _ := user.Password()
	if name == "" || len(name) > 255 || len(password) > 255 {
		return errors.New("SOCKS5: user name or password of a length that cannot be")
	}
	login := append([]byte{socksAuthVersion, byte(len(name))}, name...)
	login = append(append(login, byte(len(password))), password...)
	if err := socksExchange(nc, login, b[:]); err != nil {
		return err
	}
	if b[0] != socksAuthVersion || b[1] != 0 {
		return errors.New("SOCKS5: the proxy refuses user name and password")
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

// socksAnswer reads whether the proxy has connected.
func readSocksReply(nc net.Conn) error {
	var b [255 + 2]byte // the longest name, and a port
	if _, err := io.ReadFull(nc, b[:5]); err != nil {
		return err
	}
	reasons := [...]string{
		"", "general failure", "connection not allowed", "network unreachable", "host unreachable", "connection refused",
		"TTL expired", "command not supported", "address type not supported",
	}
	switch code := int(b[1]); {
	case b[0] != socksVersion:
		return fmt.Errorf("SOCKS version %d, want 5", b[0])
	case code >= len(reasons):
		return fmt.Errorf("SOCKS5: unknown reply %d", code)
	case code > 0:
		return errors.New("SOCKS5: " + reasons[code])
	}
	rest := map[byte]int{socksIPv4: 4, socksIPv6: 16, socksName: int(b[4]) + 1}[b[3]]
	if rest == 0 {
		return fmt.Errorf("SOCKS5: unknown type of address %d", b[3])
	}
	_, err := io.ReadFull(nc, b[:rest-1+2]) // the first byte was read; a port follows
	return err
}
