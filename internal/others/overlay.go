package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// overlay names the files that replace files of the standard library and of a project, by the path
// of those, as "go build -overlay" does. tare and the hook become packages of the standard library,
// so that no project's go.mod changes.
type overlay map[string]string

// newOverlay writes the overlay of a Go installation into a folder. A line of sources has the path
// of a package and a file.
func newOverlay(goroot, folder, sources string) (overlay, error) {
	o, inserted := make(overlay), 0
	for line := range strings.Lines(sources) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text := strings.ReplaceAll(string(content), `"github.com/tarehq/`, `"tarehq/`)
		if path == "net/http" {
			text = insertCalls(text)
			inserted += strings.Count(text, ":= Replace(")
		}
		path = filepath.Join(goroot, "src", strings.TrimPrefix(path, "github.com/"), filepath.Base(file))
		if err := o.add(folder, path, text); err != nil {
			return nil, err
		}
	}
	if want := 7; inserted != want {
		return nil, fmt.Errorf("%s: found %d of %d methods of net/http", goroot, inserted, want)
	}
	return o, nil
}

// insertCalls inserts the calls of http.Replace into a file. A call is in the line of its
// method's head, so that lines keep their numbers.
func insertCalls(text string) string {
	head := regexp.MustCompile(`(?m)^func \((\w+) \*(?:Server|Transport)\) ` +
		`((Serve|ServeTLS|Shutdown|Close|SetKeepAlivesEnabled|RoundTrip|CloseIdleConnections)\((.*?)\) ?(.*)) \{$`)
	typed := regexp.MustCompile(`(\w+) [^,]+`)
	return head.ReplaceAllStringFunc(text, func(line string) string {
		m := head.FindStringSubmatch(line)
		receiver, signature, method, args := m[1], m[2], m[3], typed.ReplaceAllString(m[4], "$1")
		call := "return f." + method + "(" + args + ")"
		if hasResult := m[5] != ""; !hasResult {
			call = strings.TrimPrefix(call, "return ") + "; return"
		}
		return fmt.Sprintf("%s if f, ok := Replace(%s, %q, %s).(interface{ %s }); ok { %s };",
			line, receiver, method, args, signature, call)
	})
}

// add writes a file into a folder that replaces the one at path.
func (o overlay) add(folder, path, text string) error {
	o[path] = filepath.Join(folder, strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "+"))
	return os.WriteFile(o[path], []byte(text), 0o644)
}
