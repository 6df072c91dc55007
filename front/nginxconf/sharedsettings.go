package nginxconf

import (
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// chain are the directives of a kind of a block and of those around it. Equal chains are the same.
// Blocks with the same chain share what is translated of it: of thousands of servers many differ in
// names and upstreams only. Reading and compiling them needs 2.2 KB instead of 5.6 KB for a location
// with a return.
type chain struct {
	outer *chain
	own   string
}

// The kinds of directives: Settings may depend on some, and a Proxy on others.
const (
	ofSettings = iota
	ofUpstreams
	numKinds
)

// chain returns the chain of a block.
func (t *translator) chain(s *scope, kind int) *chain {
	if s.outer == nil { // it is part of every chain
		return &t.httpChain
	}
	if found := s.chains[kind]; found != nil {
		return found
	}
	key := chain{t.chain(s.outer, kind), s.text(kind)}
	found := t.chains[key]
	switch {
	case key.own == "":
		found = key.outer
	case found == nil:
		found = new(key)
		t.chains[key] = found
	}
	s.chains[kind] = found
	return found
}

// text returns the text of a block's own directives of a kind.
func (s *scope) text(kind int) string {
	var b strings.Builder
	for _, d := range s.list {
		if concernsUpstream(d.Name) != (kind == ofUpstreams) || isNoSetting(d.Name) {
			continue
		}
		writeTo(&b, d)
		switch {
		case d.Name == "alias":
			b.WriteString(s.location.Match + s.location.Path)
		case d.Name == "valid_referers" && slices.Contains(d.Args, "server_names"):
			for _, names := range s.at(levelServer).own("server_name") {
				writeTo(&b, names)
			}
		}
	}
	return b.String()
}

// settings returns the settings of a block.
func (t *translator) settings(s *scope) *conf.Settings {
	if len(t.closing) > 0 { // the reason names a directive of the block
		return t.newSettings(s)
	}
	key := t.chain(s, ofSettings)
	if set := t.sharedSettings[key]; set != nil {
		return set
	}
	before := t.messages()
	set := t.newSettings(s)
	if t.messages() == before { // others have messages of their own
		t.sharedSettings[key] = set
	}
	return set
}

// proxyKey is all that a Proxy depends on.
type proxyKey struct {
	chain       *chain
	match, path string
}

// concernsUpstream reports whether a Proxy may depend on a directive.
func concernsUpstream(name string) bool {
	switch name {
	case "slice", "resolver", "resolver_timeout":
		return true
	}
	return strings.HasPrefix(name, "proxy_") || strings.HasPrefix(name, "fastcgi_") || strings.HasPrefix(name, "grpc_")
}

// writeTo writes a directive's text, which is the same for equal directives only.
func writeTo(b *strings.Builder, d *syntax.Directive) {
	b.WriteString(d.Name)
	for _, arg := range d.Args {
		b.WriteByte(0)
		b.WriteString(arg)
	}
	for _, inner := range d.Block {
		b.WriteString("{")
		writeTo(b, inner)
	}
	b.WriteByte(1)
}

// isNoSetting reports whether neither Settings nor a Proxy depend on a directive. If a directive is
// missing here, blocks with it share less.
func isNoSetting(name string) bool {
	switch name {
	case "server_name", "listen", "location", "limit_except", "internal", "try_files", "set", "if", "return", "rewrite",
		"break":
		return true
	}
	return strings.HasPrefix(name, "ssl_")
}
