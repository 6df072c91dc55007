package nginxconf

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/clientcert"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// proxy translates the directives that only HTTP has.
func (t *translator) proxy(s *scope, p *conf.Proxy) {
	p.Method = t.textOf(s, "proxy_method")
	p.Version = s.word("proxy_http_version")
	p.Header = t.setFields(s, "proxy_set_header")
	if d := s.one("proxy_set_body"); d != nil && s.level != levelHTTP {
		body := t.text(d, d.Args[0])
		p.Body = &body
	}
	p.CookieDomains = t.replaces(s, "proxy_cookie_domain")
	p.CookiePaths = t.replaces(s, "proxy_cookie_path")
	p.CookieFlags = t.flagRules(s)
	for _, d := range s.all("proxy_redirect") {
		if len(d.Args) == 2 {
			t.replace(d) // also if there is no proxy_pass
		} else if d.Args[0] != "off" && d.Args[0] != "default" {
			t.errorf(d, "missing replacement of %s (must be a pair, default or off)", grammar.Quote(d.Args[0]))
		}
	}
	t.proxyTLS(s, "proxy", p)
}

func (t *translator) setFields(s *scope, name string) (all []conf.Field) {
	for _, d := range s.all(name) {
		all = append(all, conf.Field{Name: d.Args[0], Value: t.upstreamText(s, d, t.field(d, d.Args[1]))})
	}
	return all
}

// replaces translates pairs of a text and its replacement; "off" means none.
func (t *translator) replaces(s *scope, name string) []conf.Replace {
	var all []conf.Replace
	for _, d := range s.all(name) {
		switch {
		case len(d.Args) == 1 && d.Args[0] == "off":
			return nil
		case len(d.Args) == 1:
			t.errorf(d, "missing replacement of %s (must be a pair, or off)", grammar.Quote(d.Args[0]))
		default:
			all = append(all, t.replace(d))
		}
	}
	return all
}

// replace translates a text, or a regular expression after ~, and its replacement: all other
// arguments.
func (t *translator) replace(d *syntax.Directive) conf.Replace {
	if !strings.HasPrefix(d.Args[0], "~") {
		t.text(d, d.Args[0])
	}
	return conf.Replace{From: d.Args[0], To: t.text(d, strings.Join(d.Args[1:], " "))}
}

// flagRules translates proxy_cookie_flags NAME FLAG....
func (t *translator) flagRules(s *scope) []conf.Replace {
	var all []conf.Replace
	for _, d := range s.all("proxy_cookie_flags") {
		if len(d.Args) == 1 {
			if d.Args[0] != "off" {
				t.errorf(d, "missing flags of %s (such as secure, or use off)", grammar.Quote(d.Args[0]))
			}
			return nil
		}
		for _, flag := range d.Args[1:] {
			if !hasVariable(flag) && !slices.Contains([]string{"secure", "nosecure", "httponly", "nohttponly",
				"samesite=strict", "samesite=lax", "samesite=none", "nosamesite"}, strings.ToLower(flag)) {
				t.errorf(d, "unknown flag %s", grammar.Quote(flag))
			}
		}
		all = append(all, t.replace(d))
	}
	return all
}

// proxyPass translates proxy_pass SCHEME://TO[URI].
func (t *translator) proxyPass(d *syntax.Directive, s *scope, l *conf.Location) {
	p, url := l.Proxy, d.Args[0]
	scheme, rest, found := strings.Cut(url, "://")
	var port string
	switch lower := strings.ToLower(scheme); {
	case found && lower == "http":
		scheme, port = "", "80"
	case found && lower == "https":
		scheme, port, p.Protocol = "", "443", "https"
	case found && hasVariable(scheme):
		scheme, p.Protocol = scheme+"://", "scheme"
	case hasVariable(url) && !found: // variables may contain the scheme
		p.Protocol, p.To = "scheme", t.text(d, url)
		t.proxyTLS(s, "proxy", p)
		t.redirects(s, p, true)
		return
	default:
		t.errorf(d, "invalid URL %s (must begin with http:// or https://)", grammar.Quote(url))
		return
	}
	to, uri := cutURI(rest)
	if to == "" {
		t.errorf(d, "no host in %s", grammar.Quote(url))
		return
	}
	p.To = t.target(d, scheme+to, port)
	if uri != "" {
		text := t.text(d, uri)
		p.URI = &text
	}
	variables := hasVariable(url)
	inIf := s.location == nil && slices.Contains(s.own("proxy_pass"), d)
	if uri != "" && !variables && (inIf || l.Match == "~" || l.Match == "~*" || l.Match == "@") {
		t.errorf(d, "%s must not have a path inside an if, or in a regular expression or named location (use rewrite)",
			grammar.Quote(url))
	}
	t.proxyTLS(s, "proxy", p)
	t.redirects(s, p, variables)
}

// cutURI splits what follows the scheme into the host, with its port, and the URI. A variable that
// contains a path begins the URI.
func cutURI(text string) (to, uri string) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		path, uri, _ = strings.Cut(path, ":")
		return "unix:" + path, uri
	}
	pieces, _ := grammar.Pieces(conf.Text(text)) // the caller reports the error
	end := 0
	for _, p := range pieces {
		switch p.Variable {
		case "request_uri", "uri", "document_uri", "is_args":
			return text[:end], text[end:]
		}
		if at := strings.IndexAny(p.Source, "/?"); at >= 0 {
			return text[:end+at], text[end+at:]
		}
		end += len(p.Source)
	}
	return text, ""
}

// redirects translates proxy_redirect. If the default stands alone, front applies it.
func (t *translator) redirects(s *scope, p *conf.Proxy, variables bool) {
	all := s.all("proxy_redirect")
	for _, d := range all {
		switch {
		case len(d.Args) == 2:
			p.Redirects = append(p.Redirects, t.replace(d))
		case d.Args[0] == "off":
			p.NoRedirects = true
		case d.Args[0] == "default" && variables:
			t.errorf(d, "default cannot be used if proxy_pass has variables (use a pair)")
		case d.Args[0] == "default" && len(all) > 1:
			p.Redirects = append(p.Redirects, conf.Replace{Default: true})
		}
	}
}

// proxyTLS translates TLS to upstreams. kind is proxy or grpc. As in nginx, without TLS only the
// variables in its texts must exist.
func (t *translator) proxyTLS(s *scope, kind string, p *conf.Proxy) {
	of := func(name string) string { return kind + "_ssl_" + name }
	name := t.textOf(s, of("name"))
	t.textOf(s, of("certificate"))
	t.textOf(s, of("certificate_key"))
	if p.Protocol == "" {
		return
	}
	p.TLS = conf.ProxyTLS{Name: name, SNI: s.flag(of("server_name"), false),
		NoResumption: !s.flag(of("session_reuse"), true)}
	if s.holder(
		of("verify"), of("trusted_certificate"), of("certificate"), of("certificate_key"), of("protocols"),
		of("ciphers"), of("verify_depth"), of("crl"),
	) == nil {
		return
	}
	config := &tls.Config{}
	t.protocols(s, of("protocols"), config)
	t.ciphers(s, of("ciphers"), config)
	// as in nginx, whose documentation mentions it
	config.InsecureSkipVerify = !s.flag(of("verify"), false)
	if d := s.one(of("trusted_certificate")); d != nil {
		config.RootCAs = x509.NewCertPool()
		for _, c := range t.trusted([]*syntax.Directive{d}) {
			if clientcert.IsSelfIssued(c) {
				config.RootCAs.AddCert(c)
			} else {
				p.TLS.Intermediates = append(p.TLS.Intermediates, c)
			}
		}
	} else if !config.InsecureSkipVerify {
		t.errorf(s.one(of("verify")), "%s is required to verify upstreams", of("trusted_certificate"))
	}
	if !config.InsecureSkipVerify {
		config.VerifyConnection = chains(s, of("verify_depth"), t.revocations(s, of("crl")))
	}
	t.ownCertificate(s, kind, p, config)
	p.TLS.Config = config
}

// grpc translates the directives of gRPC, which is a proxy by HTTP/2 that buffers nothing.
func (t *translator) grpc(s *scope, p *conf.Proxy) {
	p.Version, p.Stream, p.StreamRequest, p.NoRedirects = "2", true, true, true
	p.Header = t.setFields(s, "grpc_set_header")
	t.proxyTLS(s, "grpc", p)
}

// grpcPass translates grpc_pass [SCHEME://]TO.
func (t *translator) grpcPass(d *syntax.Directive, s *scope, p *conf.Proxy) {
	to, port := d.Args[0], "80"
	scheme, rest, found := strings.Cut(to, "://")
	switch lower := strings.ToLower(scheme); {
	case hasVariable(scheme): // the value has the scheme, or none
		p.Protocol = "grpc"
	case !found:
	case lower == "grpc":
		to = rest
	case lower == "grpcs":
		to, port, p.Protocol = rest, "443", "https"
	default:
		t.errorf(d, "invalid URL %s (must begin with grpc:// or grpcs://)", grammar.Quote(to))
		return
	}
	switch {
	case to == "":
		t.errorf(d, "no host in %s", grammar.Quote(d.Args[0]))
		return
	case !hasVariable(to) && !strings.HasPrefix(to, "unix:") && strings.Contains(to, "/"):
		t.errorf(d, "%s must not have a path", grammar.Quote(d.Args[0]))
		return
	}
	t.proxyTLS(s, "grpc", p)
	p.To = t.target(d, to, port)
}
