package siege

import (
	"fmt"
	"os"
	"strings"

	"github.com/tarehq/tare/internal/dialect"
)

type target struct {
	server             dialect.Server
	method, path, body string
	hasBody            bool   // the request has Content-Length, even if its body is empty
	shown              string // text in the line of a transaction
}

// parseFile parses a file of URLs, one per line. A line NAME=value sets $(NAME) for later lines;
// comments begin with #.
func (c *Command) parseFile(name, text string) (urls []target, err error) {
	vars := make(variables)
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = stripComment(line)
		if line == "" {
			continue
		}
		if isVariable(line) {
			key, value, _ := strings.Cut(line, "=")
			vars[key] = strings.TrimLeft(value, " \t=:")
			continue
		}
		t, err := c.parseTarget(vars.expand(line))
		if err != nil {
			return nil, fmt.Errorf("siege: %s:%d: %w", name, number, err)
		}
		if len(urls) > 0 && t.server != urls[0].server {
			return nil, fmt.Errorf("siege: %s:%d: server %q differs from the first URL's: only one is supported", name,
				number, t.server.Authority())
		}
		urls = append(urls, t)
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("siege: %s: no URL", name)
	}
	return urls, nil
}

// stripComment removes a comment that fills the line or follows words without a slash, since a URL
// may contain #.
func stripComment(line string) string {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "#") {
		return ""
	}
	if strings.Contains(line, " ") && !strings.Contains(line, "/") {
		line, _, _ = strings.Cut(line, "#")
	}
	return strings.TrimSpace(line)
}

func isVariable(line string) bool {
	name, _, ok := strings.Cut(line, "=")
	return ok && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// parseTarget parses a URL with optional scheme and what follows it: a method, and data or "<file".
func (c *Command) parseTarget(text string) (t target, err error) {
	text = strings.TrimSpace(text)
	t.method = "GET"
	for _, method := range []string{"POST", "PUT", "PATCH", "OPTIONS", "DELETE"} {
		if url, data, ok := strings.Cut(text, " "+method); ok {
			t.method, t.hasBody, text = method, true, strings.TrimSpace(url)
			if t.body, err = readBody(strings.TrimLeft(data, " \t")); err != nil {
				return t, err
			}
			break
		}
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "http", text
	}
	if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" {
		return t, fmt.Errorf("scheme %q is not supported: want http or https", scheme)
	}
	authority, path := rest, "/"
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	path, _, _ = strings.Cut(path, "#")
	t.path = escape("/" + strings.TrimPrefix(path, "/"))
	if t.shown = t.path; t.hasBody {
		t.shown = scheme + "://" + rest
	}
	authority = authority[strings.LastIndexByte(authority, '@')+1:] // siege ignores credentials in a URL
	t.server, err = dialect.ParseServer(scheme, authority)
	return t, err
}

// readBody returns data, or the contents of the file if data is "<file". Like siege, it trims the
// contents.
func readBody(data string) (string, error) {
	file, ok := strings.CutPrefix(data, "<")
	if !ok {
		return data, nil
	}
	b, err := os.ReadFile(strings.TrimSpace(file))
	return strings.TrimSpace(string(b)), err
}

// escape percent-encodes characters that are invalid in a URL.
func escape(path string) string {
	var out strings.Builder
	for i := range len(path) {
		if b := path[i]; b <= ' ' || b >= 0x7f || strings.IndexByte("\"<>\\^`{|}", b) >= 0 {
			fmt.Fprintf(&out, "%%%02X", b)
		} else {
			out.WriteByte(b)
		}
	}
	return out.String()
}
