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

	"github.com/tarehq/tare/front/accesslog"
	"github.com/tarehq/tare/front/files"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/privilege"
)

const (
	// defaultPort is where to listen if nothing is said.
	defaultPort = 8080
	// defaultGrace is how long requests may take that have begun when the server is to end.
	defaultGrace = 10 * time.Second
	// maxListeners bounds --listen.
	maxListeners = 256
	// noCompression is the value of --compress that turns all off.
	noCompression = "none"
)

// serveFlags is serve's command line.
type serveFlags struct {
	port       portFlag
	changed    func(flag string) bool
	listen     []string
	socketMode string

	chroot      bool
	user, group string
	sandbox     string

	config        string
	test, lenient bool

	cert, key         string
	accessLog, format string

	index, headers, compress     []string
	cacheControl                 string
	listing, dotfiles, unsafeDir bool
	grace                        time.Duration
}

// servePlan is what a command line means.
type servePlan struct {
	dir          string // absolute
	listeners    []listen.Spec
	socketMode   fs.FileMode
	privilege    privilege.Config
	cert, key    string // absolute; empty is without TLS
	accessLog    string // absolute, stdio, or empty
	format       accesslog.Format
	files        files.Config
	grace        time.Duration
	allowsAnyDir bool // the folder is not checked
}

func (f *serveFlags) define(c *cobra.Command) {
	s := c.Flags()
	f.port.number, f.changed = defaultPort, s.Changed
	s.VarP(&f.port, "port", "p", "listen on all addresses, at this `port`; 0 takes a free one. With -c FILE it may be nginx's prefix")
	s.StringArrayVar(&f.listen, "listen", nil, "listen on an `address`: see above (repeatable)")
	s.StringVar(&f.socketMode, "socket-mode", "0666", "permissions of unix sockets, in octal")
	s.BoolVarP(&f.chroot, "chroot", "r", false, "make the folder the root (as root, with --user)")
	s.StringVarP(&f.user, "user", "u", "", "become this `user`, a name or a number (as root)")
	s.StringVarP(&f.group, "group", "g", "", "become this `group` (default the user's); others are dropped")
	s.StringVar(&f.sandbox, "sandbox", string(privilege.Auto), "auto, require or off: confine by Landlock and no_new_privs, where the kernel has them")
	s.StringVarP(&f.config, "config", "c", "", "serve what an nginx.conf `file` says; with a DIR or --key it is --cert")
	s.BoolVarP(&f.test, "test", "t", false, "with -c FILE, only say what is wrong with it")
	s.BoolVar(&f.lenient, "lenient", false, "with -c FILE, leave out what is not done here, and say so")
	s.StringVar(&f.cert, "cert", "", "serve TLS, with the certificate and its chain in a PEM `file`")
	s.StringVarP(&f.key, "key", "k", "", "the certificate's key, a PEM `file` (default that of --cert)")
	s.StringVar(&f.accessLog, "access-log", "", "write a line for each request to a `file`; - is standard output (default none)")
	s.StringVar(&f.format, "log-format", string(accesslog.Combined), "common, combined or json")
	s.StringSliceVar(&f.index, "index", []string{"index.html"}, "`names` of the files that stand for their folder; '' is none")
	s.BoolVar(&f.listing, "listing", false, "show folders without an index as a page of links")
	s.BoolVar(&f.dotfiles, "dotfiles", false, "serve what begins with a dot, too")
	s.StringArrayVar(&f.headers, "header", nil, "add a `field`, such as 'X-Frame-Options: DENY', to every answer (repeatable)")
	s.StringVar(&f.cacheControl, "cache-control", "", "Cache-Control of files, such as max-age=3600 (default none)")
	s.StringSliceVar(&f.compress, "compress", []string{"siblings", "zstd", "gzip"}, "offer siblings (x.br, x.zst, x.gz beside x), and zstd and gzip made on the fly; or none")
	s.BoolVar(&f.unsafeDir, "unsafe-dir", false, "serve the folder even if it is /, or has your home or the key in it")
	s.DurationVar(&f.grace, "grace", defaultGrace, "how long requests may take that have begun when it is to end")
	s.BoolP("version", "v", false, "print the version")
}

// plan reads the flags. Its errors are about the command line.
func (f *serveFlags) plan(env Env, args []string) (*servePlan, error) {
	p := &servePlan{
		dir: env.Dir, grace: f.grace, allowsAnyDir: f.unsafeDir,
		privilege: privilege.Config{User: f.user, Group: f.group, Chroot: f.chroot},
		files:     files.Config{Index: f.index, Listing: f.listing, Dotfiles: f.dotfiles, CacheControl: f.cacheControl},
	}
	if len(args) > 0 {
		p.dir = env.path(args[0])
	}
	if len(f.index) == 0 {
		p.files.Index = []string{}
	}
	var errs [6]error
	errs[0] = p.readListeners(f)
	p.privilege.Sandbox, errs[1] = privilege.ParseSandbox(f.sandbox)
	p.format, errs[2] = accesslog.ParseFormat(f.format)
	p.files.Header, errs[3] = parseHeaders(f.headers)
	p.files.Compress, errs[4] = parseCompress(f.compress)
	errs[5] = p.readPaths(env, f)
	for i, flag := range []string{"--listen", "--sandbox", "--log-format", "--header", "--compress", ""} {
		if errs[i] != nil && flag == "" {
			return nil, errs[i]
		}
		if errs[i] != nil {
			return nil, fmt.Errorf("%s: %w", flag, errs[i])
		}
	}
	if f.grace < 0 {
		return nil, fmt.Errorf("--grace %s: want a time of 0 or more", f.grace)
	}
	return p, nil
}

func (p *servePlan) readListeners(f *serveFlags) error {
	if len(f.listen) > maxListeners {
		return fmt.Errorf("%d times, want at most %d", len(f.listen), maxListeners)
	}
	if f.port.prefix != "" {
		return fmt.Errorf("--port %q: want a number; a folder goes with -c FILE", f.port.prefix)
	}
	if f.changed("port") {
		p.listeners = append(p.listeners, listen.Port(f.port.number))
	}
	for _, text := range f.listen {
		spec, err := listen.Parse(text)
		if err != nil {
			return err
		}
		p.listeners = append(p.listeners, spec)
	}
	mode, err := strconv.ParseUint(f.socketMode, 8, 9)
	if err != nil {
		return fmt.Errorf("--socket-mode %q: want permissions in octal, such as 0660", f.socketMode)
	}
	p.socketMode = fs.FileMode(mode)
	return nil
}

// readPaths makes the paths of the log and of the keys absolute.
func (p *servePlan) readPaths(env Env, f *serveFlags) error {
	switch p.accessLog = f.accessLog; f.accessLog {
	case "", stdio:
	default:
		p.accessLog = env.path(f.accessLog)
	}
	if f.cert == "" && f.key != "" {
		return errors.New("--key belongs to a --cert; give both")
	}
	if f.cert != "" {
		p.cert, p.key = env.path(f.cert), env.path(f.cert)
	}
	if f.key != "" {
		p.key = env.path(f.key)
	}
	return nil
}

// parseHeaders reads fields as curl takes them.
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
			return c, fmt.Errorf("%q: want some of siblings, zstd, gzip, with commas between them, or %s", word, noCompression)
		}
	}
	return c, nil
}
