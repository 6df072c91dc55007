package nginxconf

import (
	"crypto/tls"
	"os"
	"slices"
	"strings"

	"github.com/tarehq/tare/front"
)

// server is a server block, and which host it became.
type server struct {
	scope   *scope
	host    int
	listens []listen
}

// server translates a server block.
func (t *translator) server(d *directive, http *scope) {
	s := newScope(http, levelServer, d.block)
	h := front.Host{Pos: d.where(), Names: t.names(s)}
	srv := server{scope: s, host: len(t.config.Hosts), listens: t.listens(s, d)}
	h.KeepSlashes = !s.flag("merge_slashes", true)
	h.UnderscoreFields, h.AnyFields = s.flag("underscores_in_headers", false), !s.flag("ignore_invalid_headers", true)
	h.RejectHandshake = s.flag("ssl_reject_handshake", false)
	t.validate(s)
	h.Defaults = t.settings(s)
	h.Steps = t.steps(s, nil)
	h.Locations = t.locations(s, nil)
	t.serverTryFiles(s, &h)
	t.unprotected(s, &h)
	if s.holder("access_log") == nil {
		t.note(d, "has no access_log: nothing is logged, where nginx has a file of its own for that")
	}
	config := t.serverTLS(s)
	if config != nil {
		h.ClientCerts = t.clientCertificates(s, config)
	}
	for i := range srv.listens {
		h.Listen = append(h.Listen, srv.listens[i].Listen)
		h.Listen[i].TLSConfig = config
	}
	if len(h.Listen) == 0 { // all are left out; a Host without any would be at every address
		return
	}
	t.config.Hosts = append(t.config.Hosts, h)
	t.servers = append(t.servers, srv)
}

// names are what a server is called.
func (t *translator) names(s *scope) []string {
	var names []string
	seen := make(map[string]bool)
	for _, d := range s.own("server_name") {
		for _, name := range d.args {
			if name == "" && len(d.args) > 1 {
				t.warn(d, "has an empty name besides others: it is for requests without a host")
			}
			if name == "$hostname" {
				name = t.hostname(d)
			}
			if !strings.HasPrefix(name, "~") {
				if err := checkName(name); err != "" {
					t.errorf(d, "%s: %s", shown(name), err)
					continue
				}
				name = strings.ToLower(name)
			}
			if strings.ContainsAny(name, "/;") && name[0] != '~' {
				t.warn(d, "%s: no host is called that", shown(name))
			}
			if seen[name] {
				t.warn(d, "%s is here twice", shown(name))
				continue
			}
			seen[name] = true
			names = append(names, name)
		}
	}
	if names == nil {
		names = []string{""}
	}
	return names
}

// hostname is the machine's name.
func (t *translator) hostname(d *directive) string {
	name, err := os.Hostname()
	if err != nil {
		t.errorf(d, "$hostname is not known: %v; write the name", err)
	}
	return name
}

// checkName says what is wrong with a name that is no regular expression.
func checkName(name string) string {
	inner := strings.TrimSuffix(strings.TrimPrefix(name, "*."), ".*")
	switch {
	case strings.Contains(inner, "*"):
		return "a star may be the first or the last part of a name only"
	case strings.HasPrefix(name, "*.") && strings.HasSuffix(name, ".*"):
		return "a star may be at one end of a name only"
	}
	return ""
}

// serverTryFiles has a server's try_files hold for paths in no location: for those below "/", if that is none.
func (t *translator) serverTryFiles(s *scope, h *front.Host) {
	own := s.own("try_files")
	if own == nil || hasRoot(h) {
		return
	}
	h.Locations = append(h.Locations, front.Location{
		Path: "/", TryFiles: t.tryFiles(s), Settings: h.Defaults, Pos: own[0].where(),
	})
}

// hasRoot reports whether every path is in a location.
func hasRoot(h *front.Host) bool {
	return slices.ContainsFunc(h.Locations, func(l front.Location) bool {
		return l.Path == "/" && (l.Match == front.Prefix || l.Match == front.FinalPrefix)
	})
}

// unprotected finds a server that would ask for passwords that it does not have.
func (t *translator) unprotected(s *scope, h *front.Host) {
	if !hasRoot(h) {
		t.checkPassword(s)
	}
}

// serverTLS is what a server asks of TLS besides certificates; nil if it says nothing.
func (t *translator) serverTLS(s *scope) *tls.Config {
	if s.holder(
		"ssl_protocols", "ssl_ciphers", "ssl_ecdh_curve", "ssl_client_certificate", "ssl_trusted_certificate", "ssl_verify_client",
		"ssl_verify_depth", "ssl_crl", "ssl_session_tickets",
	) == nil {
		return nil
	}
	config := &tls.Config{SessionTicketsDisabled: !s.flag("ssl_session_tickets", true)}
	t.protocols(s, "ssl_protocols", config)
	t.ciphers(s, "ssl_ciphers", config)
	t.curves(s, config)
	return config
}
