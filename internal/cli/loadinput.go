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
	t := agent.TLS{Insecure: f.insecure, ServerName: f.sni}
	var urls, expected, fromStdin string
	for _, in := range []struct {
		flag, name string
		text       *string
	}{
		{"body-file", f.bodyFile, &f.plan.Body}, {"urls", f.urls, &urls}, {"expect-body", f.expectBody, &expected},
		{"cacert", f.caCert, &t.CA}, {"cert", f.cert, &t.Cert}, {"key", f.key, &t.Key},
	} {
		switch {
		case in.name == "":
			continue
		case in.name == stdio && fromStdin != "":
			return fmt.Errorf("load: standard input cannot be both --%s and --%s", fromStdin, in.flag)
		case in.name == stdio:
			fromStdin = in.flag
		}
		if *in.text, err = readInput(ctx, env, in.name); err != nil {
			return fmt.Errorf("load: --%s: %w", in.flag, err)
		}
	}
	if f.urls != "" {
		if f.plan.List, err = parseRequests(urls); err != nil {
			return fmt.Errorf("load: --urls %q: %w", f.urls, err)
		}
	}
	if f.expectBody != "" {
		f.plan.Expect.Body = []byte(expected)
	}
	if !f.insecure && f.caCert == "" && f.cert == "" && f.sni == "" {
		return nil
	}
	f.tls = &t
	if f.plan.TLS, err = t.Config(); err != nil {
		return fmt.Errorf("load: --cacert, --cert, --key: %w", err)
	}
	return nil
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
