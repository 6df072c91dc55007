package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// overlayTag is the build tag of the files that exist in the overlay only.
const overlayTag = "tare_overlay"

//go:embed hook
var hookFiles embed.FS

// overlay replaces and adds files of the standard library and of a project, in the form of
// "go build -overlay". tare and the hook become packages of the standard library, so that no
// project's go.mod changes.
type overlay struct {
	goroot string
	folder string // has the files' contents
	files  map[string]string
}

// newOverlay writes the overlay of a Go installation. sources has tare's files, each with the path
// of its package.
func newOverlay(goroot, folder string, sources [][2]string) (*overlay, error) {
	o := &overlay{goroot: goroot, folder: folder, files: make(map[string]string)}
	for name, path := range map[string]string{"hook/hook.go": "tarehq/hook/hook.go",
		"hook/http/replaced.go": "net/http/zz_replaced.go"} {
		source, err := hookFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := o.addStandard(path, string(source)); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"server.go", "transport.go", "roundtrip.go"} {
		sources = append(sources, [2]string{"net/http", filepath.Join(goroot, "src", "net", "http", name)})
	}
	inserted := 0
	for _, s := range sources {
		source, err := os.ReadFile(s[1])
		if err != nil {
			return nil, err
		}
		text := string(source)
		if s[0] == "net/http" {
			var n int
			text, n = insertCalls(text)
			inserted += n
		}
		path := filepath.Join(strings.TrimPrefix(s[0], "github.com/"), filepath.Base(s[1]))
		if err := o.addStandard(path, text); err != nil {
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
func insertCalls(source string) (changed string, n int) {
	head := regexp.MustCompile(`(?m)^func \((\w+) \*(Server\) (?:Serve|ServeTLS|Shutdown|Close|SetKeepAlivesEnabled)|` +
		`Transport\) (?:RoundTrip|CloseIdleConnections))\((.*?)\) ?(.*) \{$`)
	return head.ReplaceAllStringFunc(source, func(line string) string {
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

// addStandard adds or replaces a file of the standard library, in which imports of tare are renamed.
func (o *overlay) addStandard(path, text string) error {
	return o.add(filepath.Join(o.goroot, "src", path), strings.ReplaceAll(text, `"github.com/tarehq/`, `"tarehq/`))
}

func (o *overlay) add(path, text string) error {
	own := filepath.Join(o.folder, strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "+"))
	o.files[path] = own
	return os.WriteFile(own, []byte(text), 0o644)
}

// of returns a copy for a project, whose files are in a folder of their own.
func (o *overlay) of(folder string) *overlay {
	return &overlay{goroot: o.goroot, folder: folder, files: maps.Clone(o.files)}
}

// write writes the file for "go build -overlay" and returns its name.
func (o *overlay) write() (string, error) {
	text, err := json.Marshal(map[string]any{"Replace": o.files})
	if err != nil {
		return "", err
	}
	name := filepath.Join(o.folder, "overlay.json")
	return name, os.WriteFile(name, text, 0o644)
}
