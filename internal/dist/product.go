package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// The description of the program in all artifacts.
const (
	productName = "tare"
	modulePath  = "github.com/tarehq/tare"
	homepage    = "https://" + modulePath
	license     = "MIT"
	vendor      = "The tare authors"
	maintainer  = vendor + " <" + homepage + ">"
	summary     = "HTTP server, nginx.conf front and load generator"
	description = `tare serves what an nginx.conf configures, or the files of a folder, in one process,
generates HTTP load, and measures what ways of serving an HTTP application cost.`
)

// platform is an operating system and an architecture, as in GOOS and GOARCH.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// platforms returns the platforms for which binaries are made. On macOS the command only serves:
// the lab and the generator read /proc and use epoll.
func platforms() []platform {
	return []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
}

func packagedPlatforms() (all []platform) {
	for _, p := range platforms() {
		if p.os == "linux" {
			all = append(all, p)
		}
	}
	return all
}

// release identifies a version of the artifacts.
type release struct {
	version string    // as Go writes it: v1.2.3, or v0.0.0-TIME-COMMIT
	time    time.Time // of the commit, UTC: the time of all files
}

// debianVersion returns the version as dpkg orders it: a pre-release is before its release.
func (r release) debianVersion() string {
	main, pre, isPre := strings.Cut(strings.TrimPrefix(r.version, "v"), "-")
	if !isPre {
		return main
	}
	return main + "~" + strings.ReplaceAll(pre, "-", ".")
}

func (r release) fileVersion() string { return strings.TrimPrefix(r.version, "v") }

// readRelease returns the release of a checkout. Without a version it is the commit's tag, or else
// one of the form of Go's pseudo-versions; uncommitted changes are marked. SOURCE_DATE_EPOCH
// overrides the commit's time.
func readRelease(ctx context.Context, dir, version string) (release, error) {
	epoch, isSet := os.LookupEnv("SOURCE_DATE_EPOCH")
	if !isSet {
		var err error
		if epoch, err = git(ctx, dir, "log", "-1", "--format=%ct"); err != nil {
			return release{}, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return release{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", epoch)
	}
	r := release{version: version, time: time.Unix(seconds, 0).UTC()}
	if version == "" {
		if r.version, err = checkoutVersion(ctx, dir, r.time); err != nil {
			return release{}, err
		}
	}
	if err := checkVersion(r.version); err != nil {
		return release{}, err
	}
	return r, nil
}

func checkoutVersion(ctx context.Context, dir string, t time.Time) (string, error) {
	version, err := git(ctx, dir, "describe", "--tags", "--exact-match", "--match", "v[0-9]*")
	if err != nil { // no tag
		commit, err := git(ctx, dir, "rev-parse", "--short=12", "HEAD")
		if err != nil {
			return "", err
		}
		version = "v0.0.0-" + t.Format("20060102150405") + "-" + commit
	}
	changes, err := git(ctx, dir, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changes != "" {
		version += "+dirty"
	}
	return version, nil
}

// checkVersion reports whether names of files, packages and linker flags may contain a version.
func checkVersion(version string) error {
	digits, ok := strings.CutPrefix(version, "v")
	if !ok || digits == "" || strings.Trim(digits[:1], "0123456789") != "" ||
		strings.Trim(digits, "0123456789abcdefghijklmnopqrstuvwxyz.+-") != "" {
		return fmt.Errorf("version %q: want v, a digit, and then lower-case letters, digits and .+-", version)
	}
	return nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir, c.Stderr = dir, &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
