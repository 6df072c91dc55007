package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// portFlag is the value of --port: a number or, with an nginx.conf, nginx's prefix folder.
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

// serve runs the command line: for files, or for an nginx.conf.
func (f *serveFlags) serve(ctx context.Context, env Env, args []string) error {
	if err := f.checkEmpty(args); err != nil {
		return usageError(err)
	}
	if f.config != "" && len(args) > 0 {
		return usageError(errors.New("--config and a DIR are mutually exclusive (the flag of a certificate is --cert)"))
	}
	err := checkFlags(f.set, []requirement{
		{"test lenient dump json explain method", "config"}, {"json", "test"}, {"method", "explain"}, {"key", "cert"},
	}, []exclusion{
		{"config", "listen socket-mode chroot sandbox cert access-log log-format index listing dotfiles cache-control " +
			"compress unsafe-dir", ": the file configures it"},
		{"json", "dump", ""}, {"explain", "test dump", ""},
	})
	if err != nil {
		return usageError(err)
	}
	if f.grace < 0 {
		return usageError(fmt.Errorf("--grace %s: want 0 or more", f.grace))
	}
	if f.config != "" {
		plan, err := f.frontPlan(env)
		if err != nil {
			return usageError(err)
		}
		return runFront(ctx, env, plan)
	}
	plan, err := f.plan(env, args)
	if err != nil {
		return usageError(err)
	}
	return runServe(ctx, env, plan)
}

// checkEmpty rejects arguments that are empty, as those of a script whose variable is not set.
// Without them, the command would serve the current folder, or serve it without TLS.
func (f *serveFlags) checkEmpty(args []string) error {
	if len(args) > 0 && args[0] == "" {
		return errors.New("DIR is empty (for the current folder, leave it out)")
	}
	for _, flag := range []struct{ name, value string }{
		{"config", f.config}, {"explain", f.explain}, {"cert", f.cert}, {"key", f.key},
	} {
		if f.set.Changed(flag.name) && flag.value == "" {
			return fmt.Errorf("--%s: the value is empty", flag.name)
		}
	}
	return nil
}

func (f *serveFlags) frontPlan(env Env) (*frontPlan, error) {
	switch {
	case f.set.Changed("port") && f.port.prefix == "":
		return nil, errors.New("--port and --config are mutually exclusive: the file configures where to listen")
	case len(f.headers) > 0 && f.explain == "":
		return nil, errors.New("--header requires a DIR or --explain")
	}
	f.test = f.test || f.dump
	p := &frontPlan{flags: f, file: env.path(f.config)}
	if f.port.prefix != "" {
		p.prefix = env.path(f.port.prefix)
		if !filepath.IsAbs(f.config) { // as in nginx
			p.file = filepath.Join(p.prefix, f.config)
		}
	}
	return p, nil
}
