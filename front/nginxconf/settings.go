package nginxconf

import (
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// newSettings translates the settings of a scope.
func (t *translator) newSettings(s *scope) *conf.Settings {
	set := &conf.Settings{
		Files:             t.files(s),
		Header:            t.addFields(s, "add_header"),
		Expires:           t.expires(s),
		ErrorPages:        t.errorPages(s),
		RecursiveErrors:   s.flag("recursive_error_pages", false),
		Logs:              t.accessLogs(s),
		LogSubrequest:     s.flag("log_subrequest", false),
		ErrorLog:          t.errorLog(s),
		ModifiedSince:     s.setting("if_modified_since", "exact"),
		Gzip:              gzip(s, "gzip"),
		Brotli:            compression(s, "brotli"),
		Zstd:              compression(s, "zstd"),
		Gunzip:            gzip(s, "gunzip"),
		Trailers:          t.addFields(s, "add_trailer"),
		Mirror:            t.mirror(s),
		EarlyHints:        t.texts(s, "early_hints"),
		Trace:             t.trace(s),
		SubFilter:         t.substitution(s),
		AddBefore:         t.addedPath(s, "add_before_body"),
		AddAfter:          t.addedPath(s, "add_after_body"),
		AddTypes:          s.words("addition_types"),
		NoChunks:          !s.flag("chunked_transfer_encoding", true),
		Requests:          t.requestLimits(s),
		Conns:             t.connLimits(s),
		RequestStatus:     s.number("limit_req_status", 0),
		ConnStatus:        s.number("limit_conn_status", 0),
		RequestDryRun:     s.flag("limit_req_dry_run", false),
		ConnDryRun:        s.flag("limit_conn_dry_run", false),
		RequestLogLevel:   s.word("limit_req_log_level"),
		ConnLogLevel:      s.word("limit_conn_log_level"),
		Rate:              t.rate(s, "limit_rate"),
		RateAfter:         t.rate(s, "limit_rate_after"),
		Access:            t.accessRules(s),
		Password:          t.password(s),
		AuthRequest:       t.authRequest(s),
		SatisfyAny:        s.is("satisfy", "any"),
		Referers:          t.referers(s),
		SecureLink:        t.completeLink(s),
		UserID:            t.userID(s),
		RealIP:            t.realIP(s),
		BodyTimeout:       s.time("client_body_timeout"),
		SendTimeout:       s.time("send_timeout"),
		HideVersion:       s.is("server_tokens", "off"),
		RelativeRedirects: !s.flag("absolute_redirect", true),
		HidePort:          !s.flag("port_in_redirect", true),
		PrimaryName:       s.flag("server_name_in_redirect", false),
		NoLogNotFound:     !s.flag("log_not_found", true),
		MaxRanges:         s.number("max_ranges", -1),
		Linger:            s.setting("lingering_close", "on"),
		LingerTime:        s.time("lingering_time"),
		LingerTimeout:     s.time("lingering_timeout"),
		MaxBody:           s.size("client_max_body_size", -1),
		MaxHeaders:        s.number("max_headers", 0),
		BodyBuffer:        s.size("client_body_buffer_size", 1),
		BodyFile:          s.setting("client_body_in_file_only", "off"),
	}
	set.AuthDelay, _ = grammar.ParseTime(s.word("auth_delay")) // without the directive there is no delay
	set.KeepAliveRequests, set.KeepAliveTime = t.keepAlive(s)
	if d := s.one("client_body_temp_path"); d != nil && set.BodyFile != "" {
		set.BodyDir = t.path(d, d.Args[0])
	}
	t.ignoredTexts(s)
	t.close(s, set)
	return set
}

// ignoredTexts checks the texts of uwsgi_param and of other directives of protocols that are not
// supported. As in nginx, those about fields and files do not evaluate variables, nor do names.
func (t *translator) ignoredTexts(s *scope) {
	for _, d := range s.list {
		_, kind, _ := strings.Cut(d.Name, "_")
		texts := d.Args
		switch {
		case !strings.HasSuffix(d.Spec.Name, "_*"), kind == "hide_header", kind == "pass_header", kind == "string",
			kind == "temp_path", kind == "ssl_password_file":
			continue
		case kind == "param" && len(texts) > 1:
			texts = texts[1:2]
		}
		for _, text := range texts {
			t.unavailable(d, text)
		}
	}
}

// files translates the settings of files.
func (t *translator) files(s *scope) conf.Files {
	f := conf.Files{
		Listing:       s.flag("autoindex", false),
		RoundSizes:    !s.flag("autoindex_exact_size", true),
		LocalTimes:    s.flag("autoindex_localtime", false),
		Precompressed: precompressed(s, "on"), PrecompressedAlways: precompressed(s, "always"),
		NoEtag:       !s.flag("etag", true),
		DefaultType:  s.word("default_type"),
		CharsetTypes: s.words("charset_types"),
	}
	switch format := strings.ToLower(s.word("autoindex_format")); format {
	case "xml", "jsonp":
		t.omit(s.one("autoindex_format"), "%s is not supported: use json", format)
	default:
		f.ListingFormat = format
	}
	t.symlinks(s, &f)
	t.where(s, &f)
	for _, d := range s.all("index") {
		for i, arg := range d.Args {
			if strings.HasPrefix(arg, "/") && i != len(d.Args)-1 {
				t.warn(d, "%s is a path: files after it are never used", grammar.Quote(arg))
			}
			if arg == "" {
				t.errorf(d, "empty name of a file")
			}
			f.Index = append(f.Index, t.text(d, arg))
		}
	}
	if holder := s.holder("types"); holder != nil && holder.level != levelHTTP {
		f.Types = t.typesOf(s)
	}
	if d := s.one("charset"); d != nil && !strings.EqualFold(d.Args[0], "off") {
		if f.Charset = d.Args[0]; hasVariable(f.Charset) {
			t.errorf(d, "variables are not supported")
		}
	}
	return f
}

// where finds root or alias. A block may have only one of them.
func (t *translator) where(s *scope, f *conf.Files) {
	holder := s.holder("root", "alias")
	if holder == nil {
		f.Root = conf.Text(below(t.prefix, "html")) // nginx's default
		return
	}
	if roots, aliases := holder.own("root"), holder.own("alias"); roots != nil && aliases != nil {
		t.errorf(aliases[0], "conflicts with root at %s", roots[0].Where())
	}
	for _, d := range holder.own("root") {
		root := d.Args[0]
		if len(root) > 1 {
			root = strings.TrimSuffix(root, "/")
		}
		f.Root = t.text(d, t.folderPath(d, root))
	}
	for _, d := range holder.own("alias") {
		f.Alias = t.text(d, t.folderPath(d, d.Args[0]))
		if strings.HasSuffix(d.Args[0], "/") && !strings.HasSuffix(string(f.Alias), "/") {
			f.Alias += "/"
		}
		if l := holder.location; l.Match != "~" && l.Match != "~*" {
			f.AliasPath = l.Path
		}
	}
}

// symlinks parses disable_symlinks: the policy, and the path prefix that it does not apply to. As
// in nginx, they may come in any order.
func (t *translator) symlinks(s *scope, f *conf.Files) {
	d := s.one("disable_symlinks")
	if d == nil {
		return
	}
	off, policies := false, 0
	for _, arg := range d.Args {
		if from, ok := strings.CutPrefix(arg, "from="); ok {
			f.SymlinksFrom = t.text(d, from)
			continue
		}
		policies++
		switch arg {
		case "off":
			off = true
		case "on", "if_not_owner":
			f.DisableSymlinks = arg
		default:
			t.errorf(d, "invalid parameter %s (must be on, off, if_not_owner or from=PREFIX)", grammar.Quote(arg))
		}
	}
	if policies != 1 {
		t.errorf(d, "exactly one of on, off and if_not_owner is required")
	}
	if off && f.SymlinksFrom != "" {
		t.errorf(d, "from= requires on or if_not_owner")
	}
}

func (t *translator) addFields(s *scope, name string) []conf.AddHeader {
	var all []conf.AddHeader
	for _, d := range s.all(name) {
		if strings.EqualFold(d.Args[0], "Content-Length") {
			// a common mistake for responses without a body
			t.remark(d, "Content-Length is ignored: the server sets it")
			continue
		}
		h := conf.AddHeader{Name: d.Args[0], Value: t.reportedText(d, t.field(d, d.Args[1]))}
		if len(d.Args) == 3 {
			if h.Always = d.Args[2] == "always"; !h.Always {
				t.errorf(d, "invalid parameter %s (must be always; quote values with spaces)", grammar.Quote(d.Args[2]))
			}
		}
		if h.Name == "" {
			t.warn(d, "a field without a name is not sent: it would make the response invalid")
			continue
		}
		all = append(all, h)
	}
	return all
}

func (t *translator) expires(s *scope) *conf.Expires {
	d := s.one("expires")
	if d == nil || d.IsOff() {
		return nil
	}
	e := &conf.Expires{Modified: len(d.Args) == 2}
	value := d.Args[len(d.Args)-1]
	if e.Text = t.text(d, value); !grammar.HasVariables(e.Text) {
		_, err := grammar.ParseExpiry(value, e.Modified)
		t.check(d, err)
	}
	return e
}

// errorPages translates error_page CODE... [=[STATUS]] TARGET.
func (t *translator) errorPages(s *scope) []conf.ErrorPage {
	var pages []conf.ErrorPage
	for _, d := range s.all("error_page") {
		last := len(d.Args) - 1
		page := conf.ErrorPage{Target: t.text(d, d.Args[last])}
		codes := d.Args[:last]
		if status, ok := strings.CutPrefix(codes[len(codes)-1], "="); ok {
			codes = codes[:len(codes)-1]
			page.Status = -1
			if status != "" {
				n, err := grammar.ParseNumber(status)
				if err != nil || n > 999 {
					t.errorf(d, "invalid status %s (examples: =200, =)", grammar.Quote("="+status))
				}
				page.Status = int(n)
			}
		}
		for _, code := range codes {
			n, err := strconv.Atoi(code)
			if err != nil || n < 300 || n > 599 || n == 499 {
				t.errorf(d, "invalid error status %s (must be 300 to 599, except 499)", grammar.Quote(code))
			}
			page.Statuses = append(page.Statuses, n)
		}
		if len(codes) == 0 {
			t.errorf(d, "missing error status before =")
		}
		pages = append(pages, page)
	}
	return pages
}

// mirror translates mirror; nil is off.
func (t *translator) mirror(s *scope) *conf.Mirror {
	m := conf.Mirror{NoBody: !s.flag("mirror_request_body", true)}
	all := s.all("mirror")
	for _, d := range all {
		switch {
		case d.Args[0] == "off" && len(all) == 1:
			return nil
		case d.Args[0] == "off":
			t.errorf(d, "off cannot be combined with other values")
		case !strings.HasPrefix(d.Args[0], "/") || strings.ContainsAny(d.Args[0], "$?"):
			t.errorf(d, "invalid path %s (must begin with a slash, without variables and query)", grammar.Quote(d.Args[0]))
		default:
			m.URIs = append(m.URIs, d.Args[0])
		}
	}
	if m.URIs == nil {
		return nil
	}
	return new(m)
}

func (t *translator) substitution(s *scope) *conf.SubFilter {
	out := conf.SubFilter{
		Types: s.words("sub_filter_types"), Every: !s.flag("sub_filter_once", true),
		KeepModified: s.flag("sub_filter_last_modified", false),
	}
	for _, d := range s.all("sub_filter") {
		if d.Args[0] == "" {
			t.errorf(d, "empty string to replace")
		}
		out.Substitutions = append(out.Substitutions,
			conf.Substitution{From: t.text(d, d.Args[0]), To: t.text(d, d.Args[1])})
	}
	if out.Substitutions == nil {
		return nil
	}
	return new(out)
}

// addedPath translates add_before_body or add_after_body; "" adds nothing.
func (t *translator) addedPath(s *scope, name string) string {
	path := s.word(name)
	if d := s.one(name); d != nil && path != "" {
		t.checkSubrequest(d, path)
	}
	return path
}

func (t *translator) checkSubrequest(d *syntax.Directive, path string) {
	if !strings.HasPrefix(path, "/") {
		t.errorf(d, "invalid path %s (must begin with a slash)", grammar.Quote(path))
	} else if strings.ContainsAny(path, "$?") {
		t.warn(d, "%s is a literal path: variables and queries have no meaning", grammar.Quote(path))
	}
}

// rate is a size, or a text with variables.
func (t *translator) rate(s *scope, name string) conf.Text {
	d := s.one(name)
	if d == nil {
		return ""
	}
	if !hasVariable(d.Args[0]) {
		n, err := grammar.ParseSize(d.Args[0])
		if t.check(d, err); n == 0 {
			return ""
		}
	}
	return t.text(d, d.Args[0])
}

// accessRules translates allow and deny, which form one list.
func (t *translator) accessRules(s *scope) []conf.AccessRule {
	holder := s.holder("allow", "deny")
	if holder == nil {
		return nil
	}
	var rules []conf.AccessRule
	for _, d := range holder.list {
		if d.Name != "allow" && d.Name != "deny" {
			continue
		}
		rule := conf.AccessRule{Deny: d.Name == "deny"}
		switch arg := d.Args[0]; arg {
		case "all":
		case "unix:":
			rule.Unix = true
		default:
			net, ok := parseNet(arg)
			if !ok {
				t.errorf(d, "invalid address %s (must be an IP address, a network such as 10.0.0.0/8, unix: or all)",
					grammar.Quote(arg))
			} else if net != net.Masked() {
				t.warn(d, "%s has bits set after its prefix: %s is used", grammar.Quote(arg), net.Masked())
			}
			rule.Net = net.Masked()
		}
		rules = append(rules, rule)
	}
	return rules
}

func parseNet(text string) (netip.Prefix, bool) {
	if net, err := netip.ParsePrefix(text); err == nil {
		return net, true
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, addr.BitLen()), true
}

func (t *translator) password(s *scope) *conf.Password {
	p := &conf.Password{Realm: t.textOf(s, "auth_basic")}
	file := s.one("auth_basic_user_file")
	if file != nil {
		p.File = t.text(file, t.confPath(file.Args[0]))
	}
	if d := s.one("auth_basic"); d == nil || d.Args[0] == "off" || file == nil {
		return nil
	}
	return p
}

// authRequest translates auth_request and auth_request_set. Variables that auth_request_set defines
// also exist where there is no auth_request.
func (t *translator) authRequest(s *scope) *conf.AuthRequest {
	request, sets := s.one("auth_request"), s.all("auth_request_set")
	if request == nil && sets == nil {
		return nil
	}
	a := &conf.AuthRequest{}
	if request != nil && request.Args[0] != "off" {
		a.URI = request.Args[0]
		t.checkSubrequest(request, a.URI)
	}
	for _, d := range sets {
		a.Set = append(a.Set, conf.Set{Name: t.variableName(d, d.Args[0]), Value: t.text(d, d.Args[1])})
	}
	return a
}

// checkPassword reports an auth_basic without a file: nginx would grant access to all.
func (t *translator) checkPassword(s *scope) {
	if d := s.one("auth_basic"); d != nil && d.Args[0] != "off" && s.one("auth_basic_user_file") == nil {
		t.errorf(d, "missing auth_basic_user_file: no password would be required")
	}
}

func (t *translator) realIP(s *scope) conf.RealIP {
	r := conf.RealIP{Recursive: s.flag("real_ip_recursive", false)}
	for _, d := range s.all("set_real_ip_from") {
		if d.Args[0] == "unix:" {
			r.Unix = true
		} else if net, ok := parseNet(d.Args[0]); ok {
			r.From = append(r.From, net.Masked())
		} else if addrs, err := t.hosts.find(d.Args[0]); err == nil {
			for _, a := range addrs {
				r.From = append(r.From, netip.PrefixFrom(a, a.BitLen()))
			}
		} else {
			t.errorf(d, "invalid address %s: %v (must be an IP address, a network such as 10.0.0.0/8, a name, or unix:)",
				grammar.Quote(d.Args[0]), err)
		}
	}
	if name := s.word("real_ip_header"); name == "proxy_protocol" {
		r.Header = name
	} else {
		r.Header = textproto.CanonicalMIMEHeaderKey(name)
	}
	if strings.EqualFold(r.Header, "X-Real-IP") {
		r.Header = "X-Real-IP"
	}
	return r
}
