// Command dist makes the files of a release: static binaries for Linux, Debian packages, container
// images, man pages, lists of modules (SBOM) and checksums. "make dist" runs it.
//
// Two runs for the same commit, with the same Go, make the same bytes: all times are the commit's,
// and all names and orders are fixed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	out := flags.String("out", "dist", "write to this `FOLDER`, whose files are removed first")
	version := flags.String("version", "", "make this `VERSION`, such as v1.2.3 (default the tag or commit)")
	binaries := flags.Bool("binaries", false, "make only the binaries, without packages and images")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	source, err := os.Getwd()
	if err != nil {
		return err
	}
	r, err := readRelease(ctx, source, *version)
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(*out)
	if err != nil {
		return err
	}
	if err := emptyFolder(folder); err != nil {
		return err
	}
	a := artifacts{release: r, source: source, folder: folder}
	for _, p := range platforms() {
		if err := a.binary(ctx, p); err != nil {
			return err
		}
	}
	if !*binaries {
		if err := a.packages(ctx); err != nil {
			return err
		}
	}
	if err := a.provenance(ctx); err != nil {
		return err
	}
	return writeSums(folder)
}

// emptyFolder makes a folder, or removes the files of an earlier run. A folder with other content
// is an error.
func emptyFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(folder, sumsFile)); err != nil && len(entries) > 0 {
		return fmt.Errorf("%q has files, but no %s of an earlier run (remove the folder, or choose another)", folder,
			sumsFile)
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return os.MkdirAll(folder, 0o755)
}
