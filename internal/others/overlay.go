package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// overlayTag is the build tag of the files that exist in the overlay only.
const overlayTag = "tare_overlay"

// overlay names the files that replace files of the standard library and of a project, by the path
// of those, as "go build -overlay" does. tare and the hook become packages of the standard library,
// so that no project's go.mod changes.
type overlay map[string]string

// source is a file, and the path of its package.
type source struct{ path, file string }

// newOverlay writes the overlay of a Go installation into a folder.
func newOverlay(goroot, folder string, sources []source) (overlay, error) {
	hook := filepath.Join("internal", "others", "hook")
	sources = append(sources, source{"tarehq/hook", filepath.Join(hook, "hook.go")},
		source{"net/http", filepath.Join(hook, "http", "replaced.go")})
	for _, name := range []string{"server.go", "transport.go", "roundtrip.go"} {
		sources = append(sources, source{"net/http", filepath.Join(goroot, "src", "net", "http", name)})
	}
	o, inserted := make(overlay), 0
	for _, s := range sources {
		content, err := os.ReadFile(s.file)
		if err != nil {
			return nil, err
		}
		text := strings.ReplaceAll(string(content), `"github.com/tarehq/`, `"tarehq/`)
		if s.path == "net/http" {
			var n int
			text, n = insertCalls(text)
			inserted += n
		}
		path := filepath.Join(goroot, "src", strings.TrimPrefix(s.path, "github.com/"), filepath.Base(s.file))
		if err := o.add(folder, path, text); err != nil {
			return nil, err
		}
	}
	if want := 7; inserted != want {
		return nil, fmt.Errorf("%s: found %d of %d methods of net/http", goroot, inserted, want)
	}
	return o, nil
}

// insertCalls inserts the calls of http.Replaced into a file and returns how many. A call is in the
// line of its method's head, so that lines keep their numbers.
func insertCalls(text string) (changed string, n int) {
	head := regexp.MustCompile(`(?m)^func \((\w+) \*(Server\) (?:Serve|ServeTLS|Shutdown|Close|SetKeepAlivesEnabled)|` +
		`Transport\) (?:RoundTrip|CloseIdleConnections))\((.*?)\) ?(.*) \{$`)
	return head.ReplaceAllStringFunc(text, func(line string) string {
		n++
		m := head.FindStringSubmatch(line)
		args, results := m[1], map[string]string{"error": "err", "(*Response, error)": "resp, err"}[m[4]]
		for field := range strings.SplitSeq(m[3], ",") {
			if name, _, _ := strings.Cut(strings.TrimSpace(field), " "); name != "" {
				args += ", " + name
			}
		}
		values := strings.TrimSuffix("ok, "+results, ", ")
		return fmt.Sprintf("%s if f := Replaced.%s; f != nil { if %s := f(%s); ok { return %s } };", line,
			strings.Replace(m[2], ") ", "", 1), values, args, results)
	}), n
}

// add writes a file into a folder that replaces the one at path.
func (o overlay) add(folder, path, text string) error {
	o[path] = filepath.Join(folder, strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "+"))
	return os.WriteFile(o[path], []byte(text), 0o644)
}

// write writes the file for "go build -overlay".
func (o overlay) write(file string) error {
	text, err := json.Marshal(map[string]any{"Replace": o})
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
