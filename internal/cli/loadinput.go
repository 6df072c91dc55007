//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/agent"
)

func (f *loadFlags) readFiles(ctx context.Context, env Env) (err error) {
	if f.bodyFile == stdio && f.urls == stdio {
		return errors.New("load: standard input cannot be both --body-file and --urls")
	}
	if f.bodyFile != "" {
		if f.plan.Body, err = readInput(ctx, env, f.bodyFile); err != nil {
			return fmt.Errorf("load: --body-file: %w", err)
		}
	}
	if f.urls != "" {
		text, err := readInput(ctx, env, f.urls)
		if err == nil {
			f.plan.List, err = parseRequests(text)
		}
		if err != nil {
			return fmt.Errorf("load: --urls %q: %w", f.urls, err)
		}
	}
	return f.readTLS(ctx, env)
}

const maxInput = 1 << 30 // limits the size of an input file; a larger one is probably a mistake

// readInput reads a file named by a flag. It ends with ctx even if the file is a named pipe without
// a writer.
func readInput(ctx context.Context, env Env, name string) (string, error) {
	var text string
	err := interruptible(ctx, func() (err error) {
		text, err = readAll(env, name)
		return err
	})
	if err != nil {
		return "", err // text may still change
	}
	return text, nil
}

func readAll(env Env, name string) (string, error) {
	in := env.Stdin
	if name != stdio {
		file, err := os.Open(env.path(name))
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	b, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("%q has more than %d bytes", name, maxInput)
	}
	return string(b), err
}

// readTLS sets the Plan's TLS configuration if any flag requires one.
func (f *loadFlags) readTLS(ctx context.Context, env Env) error {
	if !f.insecure && f.caCert == "" && f.cert == "" && f.key == "" && f.sni == "" {
		return nil
	}
	f.tls = &agent.TLS{Insecure: f.insecure, ServerName: f.sni}
	var err error
	if f.caCert != "" {
		if f.tls.CA, err = readInput(ctx, env, f.caCert); err != nil {
			return fmt.Errorf("load: --cacert: %w", err)
		}
		if _, err := (&agent.TLS{CA: f.tls.CA}).Config(); err != nil {
			return fmt.Errorf("load: --cacert %q: want a file with a PEM certificate", f.caCert)
		}
	}
	if f.cert != "" {
		if f.tls.Cert, err = readInput(ctx, env, f.cert); err != nil {
			return fmt.Errorf("load: --cert: %w", err)
		}
	}
	if f.key != "" {
		if f.tls.Key, err = readInput(ctx, env, f.key); err != nil {
			return fmt.Errorf("load: --key: %w", err)
		}
	}
	if f.plan.TLS, err = f.tls.Config(); err != nil {
		return fmt.Errorf("load: --cert: %w", err)
	}
	return nil
}

// parseStatuses parses statuses separated by commas; 2xx means 200 to 299.
func parseStatuses(text string) (all []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, more := part, 0
		if class, ok := strings.CutSuffix(part, "xx"); ok {
			first, more = class+"00", 99
		}
		code, err := strconv.Atoi(first)
		if err != nil || code < 200 || code > 599 {
			return nil, fmt.Errorf("%q: want a status from 200 to 599, or a class such as 2xx", part)
		}
		for status := code; status <= code+more; status++ {
			all = append(all, status)
		}
	}
	return all, nil
}

func parseAddresses(text string) (all []netip.Addr, err error) {
	for part := range strings.SplitSeq(text, ",") {
		a, err := netip.ParseAddr(part)
		if err != nil {
			return nil, fmt.Errorf("%q: want an IP address", part)
		}
		all = append(all, a)
	}
	return all, nil
}

// parseRequests parses a list of requests, one per line: an optional method, and a URL or a path.
// Lines that begin with # are comments.
func parseRequests(text string) (all []load.Request, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case len(words) == 1:
			all = append(all, load.Request{URL: words[0]})
		case len(words) == 2:
			all = append(all, load.Request{Method: words[0], URL: words[1]})
		default:
			return nil, fmt.Errorf("line %d: want [METHOD] and a URL or a path, got %d words", n, len(words))
		}
	}
	if all == nil {
		return nil, errors.New("the file has no requests: want a URL or a path on each line")
	}
	return all, nil
}
