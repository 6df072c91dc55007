package server

import (
	"crypto/tls"
	"reflect"
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf"
)

// http3Settings is what a connection of HTTP/3 keeps from its beginning on. Everything else is read
// from the configuration for each request.
type http3Settings struct {
	listener   nginxconf.Listener // without Listen
	hasIssuers bool
	hosts      []http3Host
}

// http3Host is what a handshake depends on.
type http3Host struct {
	names   []string
	rejects bool
	listen  conf.Listen // without TLSConfig
}

// http3SettingsOf returns the settings of an address, and the TLS configurations of its hosts.
func http3SettingsOf(c *Config, addr string) (s http3Settings, tls []*tls.Config) {
	s.hasIssuers = usesIssuers(c)
	at := slices.IndexFunc(c.Process.Listeners, func(l nginxconf.Listener) bool { return l.Addr == addr })
	if at >= 0 {
		s.listener = c.Process.Listeners[at]
		s.listener.Listen = conf.Listen{}
	}
	for i := range c.Front.Hosts {
		host := &c.Front.Hosts[i]
		for _, l := range host.Listen {
			if l.Addr != addr {
				continue
			}
			tls = append(tls, l.TLSConfig)
			l.TLSConfig = nil
			s.hosts = append(s.hosts, http3Host{host.Names, host.RejectHandshake, l})
		}
	}
	return s, tls
}

// sameHTTP3 reports whether the connections of a socket may serve on with another configuration.
func sameHTTP3(before, after *Config, old, now []nginxconf.Listener) bool {
	return slices.EqualFunc(old, now, func(a, b nginxconf.Listener) bool {
		oldSettings, oldTLS := http3SettingsOf(before, a.Addr)
		nowSettings, nowTLS := http3SettingsOf(after, b.Addr)
		return a.Addr == b.Addr && reflect.DeepEqual(oldSettings, nowSettings) &&
			slices.EqualFunc(oldTLS, nowTLS, sameTLS)
	})
}

// sameTLS reports whether TLS configurations have the same settings. Those with functions differ.
func sameTLS(a, b *tls.Config) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	if !a.ClientCAs.Equal(b.ClientCAs) {
		return false
	}
	a, b = a.Clone(), b.Clone()
	a.ClientCAs, b.ClientCAs = nil, nil
	return reflect.DeepEqual(a, b)
}
