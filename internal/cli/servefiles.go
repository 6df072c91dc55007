package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/files"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/privilege"
)

// Limits of a server that responds to GET and HEAD only.
const (
	headTimeout  = 10 * time.Second // for a request's head
	idleTimeout  = 75 * time.Second // between requests
	sendTimeout  = 60 * time.Second // for a client to receive some bytes; a whole response may take longer
	maxHeadBytes = 32 << 10
)

const certFlags = "--cert, --key" // place of the certificate in messages

// runServe serves files until a signal.
func runServe(ctx context.Context, env Env, plan *servePlan) error {
	if _, err := privilege.NewPlan(plan.privilege); err != nil {
		return usageError(err)
	}
	root, err := plan.openDir()
	if err != nil {
		return usageError(err)
	}
	defer root.Close()
	listeners, err := plan.listen()
	if err != nil {
		return err
	}
	options := server.Options{
		Stdout: env.Stdout, Stderr: env.Stderr, Grace: graceOption(plan.flags.grace), Listeners: listeners,
		NoHangup: true,
		Privileges: server.Privileges{User: plan.privilege.User, Group: plan.privilege.Group, Root: root,
			Chroot: plan.privilege.Chroot, Sandbox: string(plan.privilege.Sandbox)},
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM) // they end other commands
	if plan.cert != "" {
		signal.Reset(syscall.SIGHUP)
		options.NoHangup = false
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGQUIT, syscall.SIGUSR1) // as in runFront
	if !plan.privilege.Chroot {                                              // else the path is another one inside
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go plan.warnIfReplaced(watching, root, env.Stderr)
	}
	return plan.explainError(server.Run(ctx, plan.config(root, listeners), options))
}

// openDir opens the served folder once, so all later checks apply to the same folder.
func (p *servePlan) openDir() (*os.Root, error) {
	if info, err := os.Stat(p.dir); err == nil && !info.IsDir() { // opening a named pipe would block
		return nil, dirError(p.dir, syscall.ENOTDIR)
	}
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return nil, dirError(p.dir, err)
	}
	dir, err := root.Open(".")
	if err == nil {
		defer dir.Close()
		if err = p.checkServable(dir); err == nil {
			return root, nil
		}
	} else {
		err = dirError(p.dir, err)
	}
	root.Close()
	return nil, err
}

// warnIfReplaced warns once if the path no longer leads to the served folder, which was opened once: the
// process may not be allowed to open another one.
func (p *servePlan) warnIfReplaced(ctx context.Context, root *os.Root, stderr io.Writer) {
	served, err := root.Stat(".")
	if err != nil {
		return
	}
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now, err := os.Stat(p.dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, served) {
			fmt.Fprintf(stderr, "tare: warning: %q was moved, removed or replaced: the old folder is served until a restart\n", p.dir)
			return
		}
	}
}

func dirError(name string, err error) error {
	info, statErr := os.Stat(name)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		return fmt.Errorf("no such folder: %q", name)
	case statErr == nil && !info.IsDir():
		return fmt.Errorf("%q is not a folder (pass the folder that it is in)", name)
	}
	return err
}

func (p *servePlan) listen() ([]net.Listener, error) {
	passed, err := listen.Inherit()
	if err != nil {
		return nil, err
	}
	specs := p.listeners
	if len(specs) == 0 && passed.Any() {
		specs = []listen.Spec{{Network: listen.Systemd}}
	} else if len(specs) == 0 {
		specs = []listen.Spec{listen.Port(defaultPort)}
	}
	all, err := listen.All(specs, listen.Options{SocketMode: p.flags.socketMode}, passed)
	if err != nil {
		return nil, fmt.Errorf("--listen %w", err)
	}
	return all, nil
}

func (p *servePlan) config(root *os.Root, listeners []net.Listener) *server.Config {
	host := conf.Host{Pos: certFlags}
	c := &server.Config{
		Name: p.dir + p.describeFiles(), Handler: func() (http.Handler, error) { return p.handler(root) },
	}
	host.Defaults = &conf.Settings{MaxBody: -1} // the handler rejects methods with bodies
	if p.accessLog != "" {
		c.Front.LogFormats = []conf.LogFormat{p.flags.format}
		host.Defaults.Logs = []conf.Log{{Path: p.accessLog, Format: p.flags.format.Name}}
	}
	for _, l := range listeners {
		at := conf.Listen{Addr: configAddress(l.Addr())}
		if p.cert != "" {
			at.TLS, at.HTTP2, at.Certs = true, true, []conf.CertFiles{{Cert: p.cert, Key: p.key}}
		}
		host.Listen = append(host.Listen, at)
		c.Process.Listeners = append(c.Process.Listeners, nginxconf.Listener{Listen: at, HeaderTimeout: headTimeout,
			IdleTimeout: idleTimeout, SendTimeout: sendTimeout, HeaderBytes: maxHeadBytes})
	}
	c.Front.Hosts = []conf.Host{host}
	return c
}

// configAddress returns the address of an open socket, as a configuration has it.
func configAddress(addr net.Addr) string {
	text := addr.String()
	if addr.Network() == "unix" {
		return "unix:" + text
	}
	if port, ok := strings.CutPrefix(text, "0.0.0.0:"); ok {
		return "*:" + port
	}
	return text
}

func (p *servePlan) describeFiles() string {
	f, words := p.files, []string{}
	if len(f.Index) > 0 {
		words = append(words, "index "+strings.Join(f.Index, " or "))
	}
	if f.Listing {
		words = append(words, "listings")
	}
	if f.Dotfiles {
		words = append(words, "dotfiles")
	}
	if len(words) == 0 {
		return ""
	}
	return ", with " + strings.Join(words, ", ")
}

// handler returns the handler of the folder, after the privileges have been given up.
func (p *servePlan) handler(root *os.Root) (http.Handler, error) {
	config := p.files
	config.Dir, config.Root = p.dir, root
	if p.privilege.Chroot {
		config.Dir = "/"
	}
	h, err := files.New(config)
	if errors.Is(err, fs.ErrPermission) {
		user := p.privilege.User
		if user == "" {
			user = fmt.Sprintf("user %d", os.Getuid())
		}
		return nil, fmt.Errorf("%s cannot read %q: %w (change its permissions, or --user)", user, p.dir, err)
	}
	if err != nil {
		return nil, &server.ConfigError{Err: err}
	}
	return h, nil
}

func (p *servePlan) explainError(err error) error {
	invalid, ok := errors.AsType[*server.ConfigError](err)
	switch {
	case errors.Is(err, server.ErrAborted):
		return fmt.Errorf("%w (raise --grace)", err)
	case !ok:
		return err
	case p.accessLog != "" && strings.Contains(err.Error(), p.accessLog) && !strings.Contains(err.Error(), "--"):
		return usageError(fmt.Errorf("--access-log: %w", invalid.Err))
	}
	return usageError(invalid.Err)
}
