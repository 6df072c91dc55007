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

// newOverlay writes the overlay of a Go installation. sources are tare's files by import path.
func newOverlay(goroot, folder string, sources map[string][]string) (*overlay, error) {
	o := &overlay{goroot: goroot, folder: folder, files: make(map[string]string)}
	for name, path := range map[string]string{"hook/hook.go": "tarehq/hook/hook.go",
		"hook/http/replaced.go": "net/http/zz_replaced.go"} {
		source, err := hookFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := o.addStandard(path, source); err != nil {
			return nil, err
		}
	}
	for path, files := range sources {
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			path := filepath.Join(strings.TrimPrefix(path, "github.com/"), filepath.Base(file))
			if err := o.addStandard(path, source); err != nil {
				return nil, err
			}
		}
	}
	inserted := 0
	for _, name := range []string{"server.go", "transport.go", "roundtrip.go"} {
		source, err := os.ReadFile(filepath.Join(goroot, "src", "net", "http", name))
		if err != nil {
			return nil, err
		}
		changed, n := insertCalls(string(source))
		inserted += n
		if err := o.addStandard("net/http/"+name, []byte(changed)); err != nil {
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
		args, values, results := m[1], "ok", ""
		for field := range strings.SplitSeq(m[3], ",") {
			if name, _, _ := strings.Cut(strings.TrimSpace(field), " "); name != "" {
				args += ", " + name
			}
		}
		switch m[4] {
		case "error":
			values, results = "ok, err", "err"
		case "(*Response, error)":
			values, results = "ok, resp, err", "resp, err"
		}
		return fmt.Sprintf("%s if f := Replaced.%s; f != nil { if %s := f(%s); ok { return %s } };", line,
			strings.Replace(m[2], ") ", "", 1), values, args, results)
	}), n
}

// addStandard adds or replaces a file of the standard library, in which imports of tare are renamed.
func (o *overlay) addStandard(path string, source []byte) error {
	text := strings.ReplaceAll(string(source), `"github.com/tarehq/`, `"tarehq/`)
	return o.add(filepath.Join(o.goroot, "src", path), text)
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
