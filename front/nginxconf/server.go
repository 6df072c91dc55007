package nginxconf

import (
	"crypto/tls"
	"os"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

func (t *translator) server(d *syntax.Directive, http *scope) {
	s := newScope(http, levelServer, d.Block)
	h := conf.Host{Pos: d.Place(), Names: t.names(s)}
	listens := t.listensOf(s, d)
	h.KeepSlashes = !s.flag("merge_slashes", true)
	h.UnderscoreFields, h.AnyFields = s.flag("underscores_in_headers", false), !s.flag("ignore_invalid_headers", true)
	h.RejectHandshake = s.flag("ssl_reject_handshake", false)
	t.checkNamed(s, d.Block)
	if at := s.holder("error_page"); at != nil {
		t.checkNamed(s, at.own("error_page"))
	}
	h.Defaults = t.validate(s)
	h.Steps = t.steps(s)
	h.Locations = t.locations(s)
	t.serverTryFiles(s, &h)
	if !hasRoot(&h) { // requests in no location have the server's settings
		t.checkPassword(s)
	}
	if s.holder("access_log") == nil {
		t.remark(d, "no access_log: nothing is logged, where nginx uses a default file")
	}
	config := t.serverTLS(s)
	if config != nil {
		h.ClientCerts = t.clientCertificates(s, config)
	}
	t.checkQUICVersion(s, listens, config)
	if len(listens) == 0 { // all were left out; a Host without addresses would be at every address
		return
	}
	h.Listen = make([]conf.Listen, len(listens))
	for i, l := range listens {
		l.TLSConfig = config
		t.sessions(s, l.Listen)
		h.Listen[i], l.Listen = *l.Listen, &h.Listen[i]
	}
	t.config.Hosts = append(t.config.Hosts, h)
	t.listens = append(t.listens, listens...)
}

func (t *translator) names(s *scope) []string {
	var names []string
	seen := make(map[string]bool)
	for _, d := range s.own("server_name") {
		for _, name := range d.Args {
			if name == "" && len(d.Args) > 1 {
				t.warn(d, "empty name among others: it matches requests without a host")
			}
			if name == "$hostname" {
				name = t.hostname(d)
			}
			if !strings.HasPrefix(name, "~") {
				if err := checkName(name); err != "" {
					t.errorf(d, "%s: %s", grammar.Quote(name), err)
					continue
				}
				name = strings.ToLower(name)
			}
			if strings.ContainsAny(name, "/;") && name[0] != '~' {
				t.warn(d, "%s cannot match a host", grammar.Quote(name))
			}
			if seen[name] {
				t.warn(d, "duplicate name %s", grammar.Quote(name))
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

func (t *translator) hostname(d *syntax.Directive) string {
	name, err := os.Hostname()
	if err != nil {
		t.errorf(d, "cannot get the value of $hostname: %v (write the name instead)", err)
	}
	return name
}

// checkName returns the error of a name that is not a regular expression; "" if it is valid.
func checkName(name string) string {
	inner := strings.TrimSuffix(strings.TrimPrefix(name, "*."), ".*")
	switch {
	case strings.Contains(inner, "*"):
		return "a star must be the first or the last part of a name"
	case strings.HasPrefix(name, "*.") && strings.HasSuffix(name, ".*"):
		return "a name must not have a star at both ends"
	}
	return ""
}

// serverTryFiles applies a server's try_files to paths in no location, by a location "/" if there
// is none.
func (t *translator) serverTryFiles(s *scope, h *conf.Host) {
	own := s.own("try_files")
	if own == nil || hasRoot(h) {
		return
	}
	h.Locations = append(h.Locations, conf.Location{
		Path: "/", TryFiles: t.tryFiles(s), Settings: h.Defaults, Pos: own[0].Place(),
	})
}

// hasRoot reports whether every path is in a location.
func hasRoot(h *conf.Host) bool {
	return slices.ContainsFunc(h.Locations, func(l conf.Location) bool {
		return l.Path == "/" && (l.Match == "" || l.Match == "^~")
	})
}

// serverTLS translates a server's TLS settings except certificates; nil without any.
func (t *translator) serverTLS(s *scope) *tls.Config {
	if s.holder(
		"ssl_protocols", "ssl_ciphers", "ssl_ecdh_curve", "ssl_client_certificate", "ssl_trusted_certificate",
		"ssl_verify_client",
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
