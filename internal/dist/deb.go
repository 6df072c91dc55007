package main

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
)

// packager is the program that makes Debian packages. "go run" builds it; it is not a dependency.
const packager = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4"

// packaged holds the files of packages that do not depend on the program.
//
//go:embed files
var packaged embed.FS

// file is a file of a package or an image. A folder's path ends with a slash.
type file struct {
	path     string // without a leading slash
	mode     int64
	isConfig bool // kept on upgrades, if the administrator changed it
	text     []byte
}

func (f file) isFolder() bool { return f.path[len(f.path)-1] == '/' }

type sharedFiles struct {
	man                map[string][]byte // by file name
	completions        map[string][]byte // by shell
	license, changelog []byte
}

// files returns the shared files of packages in a fixed order.
func (s sharedFiles) files() []file {
	all := []file{
		{path: "usr/share/bash-completion/completions/tare", mode: 0o644, text: s.completions["bash"]},
		{path: "usr/share/zsh/vendor-completions/_tare", mode: 0o644, text: s.completions["zsh"]},
		{path: "usr/share/fish/vendor_completions.d/tare.fish", mode: 0o644, text: s.completions["fish"]},
		{path: "usr/share/doc/tare/copyright", mode: 0o644, text: s.license},
		{path: "usr/share/doc/tare/CHANGELOG.md", mode: 0o644, text: s.changelog},
		{path: "etc/tare/", mode: 0o755},
		{path: "etc/tare/nginx.conf", mode: 0o644, isConfig: true, text: packagedFile("nginx.conf")},
		{path: "etc/logrotate.d/tare", mode: 0o644, isConfig: true, text: packagedFile("tare.logrotate")},
		{path: "usr/lib/systemd/system/tare.service", mode: 0o644, text: packagedFile("tare.service")},
	}
	for _, name := range slices.Sorted(maps.Keys(s.man)) {
		all = append(all, file{path: "usr/share/man/man1/" + name, mode: 0o644, text: s.man[name]})
	}
	return all
}

func programFiles(binary, modules []byte) []file {
	return []file{
		{path: "usr/bin/tare", mode: 0o755, text: binary},
		{path: "usr/share/doc/tare/tare.spdx.json", mode: 0o644, text: modules},
	}
}

func packagedFile(name string) []byte {
	b, err := packaged.ReadFile("files/" + name)
	if err != nil {
		panic("main: BUG: an embedded file is missing: " + name)
	}
	return b
}

func (a *artifacts) debian(ctx context.Context, p platform, files []file) error {
	stage, err := os.MkdirTemp("", "tare-deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	config, err := stagePackage(stage, p.arch, a.release, files)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "run", packager, "package", "--config", config, "--packager", "deb",
		"--target", a.path(p, ".deb"))
	c.Dir, c.Stderr = stage, os.Stderr
	c.Env = append(os.Environ(), "GOFLAGS=", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", a.release.time.Unix()))
	if err := c.Run(); err != nil {
		return fmt.Errorf("make the Debian package for %s: %w", p, err)
	}
	return nil
}

// stagePackage writes the files of a package and nfpm's configuration (https://nfpm.goreleaser.com)
// into a folder, and returns the configuration's path.
func stagePackage(stage, arch string, r release, files []file) (string, error) {
	mtime := r.time.Format(time.RFC3339)
	scripts, contents := make(object), []object{}
	for name, script := range map[string]string{
		"postinstall": "postinst", "preremove": "prerm", "postremove": "postrm",
	} {
		path := filepath.Join(stage, script)
		if err := os.WriteFile(path, packagedFile(script), 0o755); err != nil {
			return "", err
		}
		scripts[name] = path
	}
	for i, f := range files {
		dst := "/" + f.path
		content := object{"dst": dst, "file_info": object{"mode": f.mode, "mtime": mtime, "owner": "root", "group": "root"}}
		contents = append(contents, content)
		if f.isFolder() {
			content["type"] = "dir"
			continue
		}
		if f.isConfig {
			content["type"] = "config"
		}
		text := f.text
		if filepath.Ext(dst) == ".1" { // man pages are compressed
			var err error
			if text, err = gzipOf(text); err != nil {
				return "", err
			}
			content["dst"] = dst + ".gz"
		}
		src := filepath.Join(stage, fmt.Sprintf("content-%d", i))
		if err := os.WriteFile(src, text, 0o644); err != nil {
			return "", err
		}
		content["src"] = src
	}
	text, err := yaml.Marshal(object{
		"name": productName, "arch": arch, "platform": "linux", "version": r.debianVersion(), "version_schema": "none",
		"section": "httpd", "priority": "optional", "maintainer": maintainer, "description": summary + "\n" + description,
		"vendor": vendor, "homepage": homepage, "license": license, "mtime": mtime,
		"recommends": []string{"ca-certificates", "logrotate"}, "contents": contents, "scripts": scripts,
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(stage, "nfpm.yaml")
	return path, os.WriteFile(path, text, 0o644)
}
