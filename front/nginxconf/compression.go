package nginxconf

import (
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// compression translates the directives of ngx_brotli or zstd-nginx-module; nil is off.
func compression(s *scope, name string) *conf.Compression {
	if !s.flag(name, false) {
		return nil
	}
	c := &conf.Compression{Types: s.words(name + "_types"), Vary: s.flag("gzip_vary", false),
		MinLength: s.size(name+"_min_length", 1)} // empty bodies are never compressed
	if s.one(name+"_comp_level") != nil {
		level := s.number(name+"_comp_level", 0)
		c.Level = &level
	}
	return c
}

// gzip translates gzip or gunzip and what belongs to it; nil is off. With gunzip, clients that would
// not get a compressed response get a decompressed one.
func gzip(s *scope, name string) *conf.Gzip {
	if !s.flag(name, false) {
		return nil
	}
	g := &conf.Gzip{
		Level: s.number("gzip_comp_level", 0), Vary: s.flag("gzip_vary", false), HTTP10: s.is("gzip_http_version", "1.0"),
		Types: s.words("gzip_types"), Disable: s.words("gzip_disable"),
		MinLength: s.size("gzip_min_length", 1),
	}
	for _, word := range s.words("gzip_proxied") {
		if strings.EqualFold(word, "off") {
			g.Proxied = nil
			break
		}
		g.Proxied = append(g.Proxied, strings.ToLower(word))
	}
	return g
}

// precompressed returns the codings of files next to others whose directive has a value.
func precompressed(s *scope, value string) (codings []string) {
	for _, of := range []struct{ directive, coding string }{
		{"gzip_static", "gzip"}, {"brotli_static", "br"}, {"zstd_static", "zstd"},
	} {
		if s.is(of.directive, value) {
			codings = append(codings, of.coding)
		}
	}
	return codings
}
