package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// object is an object of a JSON or YAML document, whose keys are written in their order.
type object = map[string]any

const sumsFile = "SHA256SUMS"

type artifacts struct {
	release release
	source  string // the checkout
	folder  string // receives the files; absolute
}

func (a *artifacts) path(p platform, suffix string) string {
	return filepath.Join(a.folder, fmt.Sprintf("%s-%s-%s%s", productName, a.release.fileVersion(), p, suffix))
}

// binary builds the program and writes the list of its modules. Settings of the environment that
// change the result are fixed.
func (a *artifacts) binary(ctx context.Context, p platform) error {
	path := a.path(p, "")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X "+modulePath+"/internal/cli.release="+a.release.version,
		"-o", path, "./cmd/tare")
	c.Dir, c.Stderr = a.source, os.Stderr
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	if err := c.Run(); err != nil {
		return fmt.Errorf("go build for %s: %w", p, err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	sum, err := fileSum(path)
	if err != nil {
		return err
	}
	text, err := sbom(info, a.release, filepath.Base(path), sum)
	if err != nil {
		return err
	}
	return os.WriteFile(a.path(p, ".spdx.json"), text, 0o644)
}

func (a *artifacts) shared(ctx context.Context) (s sharedFiles, err error) {
	if s.man, err = manPages(ctx, a.release); err != nil {
		return s, err
	}
	s.completions = make(map[string][]byte)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := help(ctx, "completion", shell)
		if err != nil {
			return s, err
		}
		s.completions[shell] = []byte(text)
	}
	if s.license, err = os.ReadFile(filepath.Join(a.source, "LICENSE")); err != nil {
		return s, err
	}
	s.changelog, err = os.ReadFile(filepath.Join(a.source, "CHANGELOG.md"))
	return s, err
}

func (a *artifacts) packages(ctx context.Context) error {
	shared, err := a.shared(ctx)
	if err != nil {
		return err
	}
	for _, p := range packagedPlatforms() {
		binary, err := os.ReadFile(a.path(p, ""))
		if err != nil {
			return err
		}
		modules, err := os.ReadFile(a.path(p, ".spdx.json"))
		if err != nil {
			return err
		}
		files := append(shared.files(), programFiles(binary, modules)...)
		if err := a.debian(ctx, p, files); err != nil {
			return err
		}
		var image bytes.Buffer
		if err := writeImage(&image, p.arch, a.release, imageFiles(binary, modules, shared.license)); err != nil {
			return err
		}
		if err := os.WriteFile(a.path(p, ".oci.tar"), image.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func fileSum(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return hexSum(b), nil
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// checksum is the SHA-256 of a file, in hexadecimal digits.
type checksum struct{ name, sum string }

// checksums returns those of a folder's files, sorted by name.
func checksums(folder string) (all []checksum, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		sum, err := fileSum(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, checksum{e.Name(), sum})
	}
	return all, nil
}

// writeSums writes the checksums of a folder's files as sha256sum does.
func writeSums(folder string) error {
	all, err := checksums(folder)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "%s  %s\n", c.sum, c.name)
	}
	return os.WriteFile(filepath.Join(folder, sumsFile), []byte(b.String()), 0o644)
}
