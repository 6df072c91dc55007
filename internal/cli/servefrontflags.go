package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// portFlag is --port: a number, or with an nginx.conf what nginx's -p is, a folder.
type portFlag struct {
	number uint16
	prefix string
}

// Set implements pflag.Value.
func (f *portFlag) Set(text string) error {
	if strings.Trim(text, "0123456789") != "" {
		f.prefix = text
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("want a number from 0 to 65535")
	}
	f.number = uint16(n)
	return nil
}

// String implements pflag.Value.
func (f *portFlag) String() string {
	if f.prefix != "" {
		return f.prefix
	}
	return strconv.Itoa(int(f.number))
}

// Type implements pflag.Value.
func (*portFlag) Type() string { return "port" }

// serve carries out the command line: it is about files, or about an nginx.conf.
func (f *serveFlags) serve(ctx context.Context, env Env, args []string) error {
	if f.config != "" && (len(args) > 0 || f.key != "") { // as it was before there were configurations
		if f.cert != "" {
			return usageError(fmt.Errorf("-c: with a DIR or --key it is the certificate, and there is --cert; give one of them"))
		}
		f.cert, f.config = f.config, ""
	}
	if f.config != "" {
		plan, err := f.frontPlan(env)
		if err != nil {
			return usageError(err)
		}
		return runFront(ctx, env, plan)
	}
	if f.test || f.lenient {
		return usageError(fmt.Errorf("-t and --lenient go with -c FILE"))
	}
	plan, err := f.plan(env, args)
	if err != nil {
		return usageError(err)
	}
	return runServe(ctx, env, plan)
}

// frontPlan reads the flags that go with an nginx.conf.
func (f *serveFlags) frontPlan(env Env) (*frontPlan, error) {
	for _, flag := range []string{
		"listen", "socket-mode", "chroot", "sandbox", "cert", "access-log", "log-format", "index", "listing", "dotfiles",
		"header", "cache-control", "compress", "unsafe-dir",
	} {
		if f.changed(flag) {
			return nil, fmt.Errorf("--%s does not go with -c %s, which says what is served and how", flag, f.config)
		}
	}
	if f.changed("port") && f.port.prefix == "" {
		return nil, fmt.Errorf("--port %d: -c %s says where to listen; a folder would be nginx's prefix", f.port.number, f.config)
	}
	if f.grace < 0 {
		return nil, fmt.Errorf("--grace %s: want a time of 0 or more", f.grace)
	}
	p := &frontPlan{user: f.user, group: f.group, lenient: f.lenient, test: f.test, grace: f.grace}
	p.file = env.path(f.config)
	if f.port.prefix != "" {
		p.prefix = env.path(f.port.prefix)
		if !filepath.IsAbs(f.config) { // as nginx reads it
			p.file = filepath.Join(p.prefix, f.config)
		}
	}
	if isPEM(p.file) {
		return nil, fmt.Errorf("-c %s: this is a certificate; give it by --cert", f.config)
	}
	return p, nil
}

// isPEM reports whether a file begins as PEM does, which no nginx.conf can.
func isPEM(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	const armor = "-----BEGIN "
	start := make([]byte, len(armor))
	_, err = file.Read(start)
	return err == nil && string(start) == armor
}
