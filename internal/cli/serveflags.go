package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/files"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/privilege"
)

const (
	defaultPort   = 8080             // port without --port and --listen
	defaultGrace  = 10 * time.Second // default of --grace
	maxListeners  = 256              // limits the number of --listen flags
	noCompression = "none"           // value of --compress that disables it
)

type serveFlags struct {
	port       portFlag
	set        *pflag.FlagSet
	listen     []string
	socketMode fs.FileMode

	chroot      bool
	user, group string
	sandbox     privilege.Sandbox

	config                    string
	test, dump, json, lenient bool
	explain, method           string

	cert, key string
	accessLog string
	format    conf.LogFormat

	index, headers, compress     []string
	cacheControl                 string
	listing, dotfiles, unsafeDir bool
	version                      bool
	grace                        time.Duration
}

type servePlan struct {
	flags     *serveFlags
	dir       string // absolute
	listeners []listen.Spec
	privilege privilege.Config
	cert, key string // absolute; empty without TLS
	accessLog string // absolute path, stdio, or empty
	files     files.Config
}

func (f *serveFlags) define(c *cobra.Command) {
	s := c.Flags()
	f.port.number, f.set, f.socketMode, f.sandbox = defaultPort, s, 0o666, privilege.Auto
	f.format, _ = parseLogFormat("combined")
	s.VarP(&f.port, "port", "p", "listen on all addresses at `PORT`, 0 for a free one; with -c FILE, a folder is nginx's prefix")
	s.StringArrayVar(&f.listen, "listen", nil, "listen on this `ADDRESS`, see above; may be repeated (default --port)")
	s.Var(parsed("mode", &f.socketMode, parseMode), "socket-mode",
		"create unix sockets with this octal `MODE` (default 0666)")
	s.BoolVarP(&f.chroot, "chroot", "r", false, "make the folder the root directory; requires root and --user")
	s.StringVarP(&f.user, "user", "u", "", "become this `USER`, a name or a number; requires root (default unchanged)")
	s.StringVarP(&f.group, "group", "g", "", "become this `GROUP` and drop all others (default the user's group)")
	s.Var(parsed("mode", &f.sandbox, privilege.ParseSandbox), "sandbox",
		"restrict the process by Landlock and no_new_privs: `MODE` auto (if the kernel supports it), require or off (default auto)")
	s.StringVarP(&f.config, "config", "c", "", "serve what this nginx.conf `FILE` configures (default none)")
	s.BoolVarP(&f.test, "test", "t", false, "with -c FILE, only check it")
	s.BoolVarP(&f.dump, "dump", "T", false, "with -c FILE, check it and print all files of the configuration")
	s.BoolVar(&f.json, "json", false, "with -t, print errors, warnings and notes as JSON on standard output")
	s.StringVar(&f.explain, "explain", "",
		"with -c FILE, print how a request for this `URL` would be served, without serving it (default none)")
	s.StringVar(&f.method, "method", "GET", "with --explain, the request's `METHOD`")
	s.BoolVar(&f.lenient, "lenient", false, "with -c FILE, ignore unsupported directives and print them")
	s.StringVar(&f.cert, "cert", "", "serve TLS with the certificate and its chain in this PEM `FILE` (default no TLS)")
	s.StringVarP(&f.key, "key", "k", "", "read the certificate's key from this PEM `FILE` (default the file of --cert)")
	s.StringVar(&f.accessLog, "access-log", "",
		"write a line for each request to `FILE`; - is standard output (default none)")
	s.Var(parsed("format", &f.format, parseLogFormat), "log-format",
		"write the access log in `FORMAT` common, combined or json (default combined)")
	s.StringSliceVar(&f.index, "index", []string{"index.html"},
		"serve the first of these `FILES` in a folder for the folder itself; '' for none")
	s.BoolVar(&f.listing, "listing", false, "list folders without an index file as a page of links")
	s.BoolVar(&f.dotfiles, "dotfiles", false, "also serve files and folders that begin with a dot")
	s.StringArrayVar(&f.headers, "header", nil,
		"add this `FIELD` to every response of the folder, such as 'X-Frame-Options: DENY', or with --explain to the request; may be repeated (default none)")
	s.StringVar(&f.cacheControl, "cache-control", "",
		"send this Cache-Control `VALUE` with files, such as max-age=3600 (default none)")
	s.StringSliceVar(&f.compress, "compress", []string{"siblings", "zstd", "gzip"},
		"compress responses by these `METHODS`: siblings (x.br, x.zst or x.gz beside x), zstd and gzip on the fly, or none")
	s.BoolVar(&f.unsafeDir, "unsafe-dir", false, "serve even /, your home, or a folder that holds the key or the log")
	s.DurationVar(&f.grace, "grace", defaultGrace, "let active requests finish within `TIME` at the end")
	s.BoolVarP(&f.version, "version", "v", false, "print the version")
}

// plan parses the flags. Its errors are usage errors.
func (f *serveFlags) plan(env Env, args []string) (*servePlan, error) {
	p := &servePlan{
		flags: f, dir: env.Dir,
		privilege: privilege.Config{User: f.user, Group: f.group, Chroot: f.chroot, Sandbox: f.sandbox},
		files:     files.Config{Index: f.index, Listing: f.listing, Dotfiles: f.dotfiles, CacheControl: f.cacheControl},
	}
	if len(args) > 0 {
		p.dir = env.path(args[0])
	}
	if len(f.index) == 0 {
		p.files.Index = []string{}
	}
	if err := p.readListeners(f); err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	var err error
	if p.files.Header, err = parseHeaders(f.headers); err != nil {
		return nil, fmt.Errorf("--header: %w", err)
	}
	if p.files.Compress, err = parseCompress(f.compress); err != nil {
		return nil, fmt.Errorf("--compress: %w", err)
	}
	return p, p.readPaths(env, f)
}

func parseLogFormat(name string) (f conf.LogFormat, err error) {
	const common = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent`
	switch f.Name = name; name {
	case "common":
		f.Text = common
	case "combined":
		f.Text = common + ` "$http_referer" "$http_user_agent"`
	case "json":
		f.Escape, f.Text = "json", `{"time":"$time_iso8601","client":"$remote_addr","method":"$request_method",`+
			`"host":"$http_host","uri":"$request_uri","protocol":"$server_protocol","status":$status,`+
			`"bytes":$body_bytes_sent,"duration_s":$request_time,"referer":"$http_referer",`+
			`"user_agent":"$http_user_agent","request":"$request","tls":"$ssl_protocol"}`
	default:
		err = fmt.Errorf("unknown format %q (must be common, combined or json)", name)
	}
	return f, err
}

func (p *servePlan) readListeners(f *serveFlags) error {
	if len(f.listen) > maxListeners {
		return fmt.Errorf("%d addresses: want at most %d", len(f.listen), maxListeners)
	}
	if f.port.prefix != "" {
		return fmt.Errorf("--port %q: want a number (a folder requires -c FILE)", f.port.prefix)
	}
	if f.set.Changed("port") {
		p.listeners = append(p.listeners, listen.Port(f.port.number))
	}
	for _, text := range f.listen {
		spec, err := listen.Parse(text)
		if err != nil {
			return err
		}
		p.listeners = append(p.listeners, spec)
	}
	return nil
}

func parseMode(text string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(text, 8, 9)
	if err != nil {
		return 0, errors.New("want permissions in octal, such as 0660")
	}
	return fs.FileMode(mode), nil
}

func (p *servePlan) readPaths(env Env, f *serveFlags) error {
	switch p.accessLog = f.accessLog; f.accessLog {
	case "", stdio:
	default:
		if p.accessLog = env.path(f.accessLog); strings.Contains(p.accessLog, "$") {
			return fmt.Errorf("--access-log %q: want a path without $, which begins a variable", p.accessLog)
		}
	}
	if f.cert != "" {
		p.cert, p.key = env.path(f.cert), env.path(f.cert)
	}
	if f.key != "" {
		p.key = env.path(f.key)
	}
	return nil
}

// parseHeaders parses header fields as curl does.
func parseHeaders(lines []string) (http.Header, error) {
	h := make(http.Header)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if name = textproto.TrimString(name); !ok || name == "" {
			return nil, fmt.Errorf("%q: want NAME: VALUE", line)
		}
		h.Add(name, textproto.TrimString(value))
	}
	return h, nil
}

func parseCompress(words []string) (c files.Compress, err error) {
	if len(words) == 1 && words[0] == noCompression {
		return c, nil
	}
	for _, word := range words {
		switch word {
		case "siblings":
			c.Siblings = true
		case "gzip":
			c.Gzip = true
		case "zstd":
			c.Zstd = true
		default:
			return c, fmt.Errorf("%q: want a comma-separated list of siblings, zstd and gzip, or %s", word,
				noCompression)
		}
	}
	return c, nil
}
