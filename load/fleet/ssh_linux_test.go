package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/fleet"
)

// elsewhere puts an ssh in PATH whose hosts are this machine, with a home directory of their own
// and the given system and architecture. It returns the home directory.
func elsewhere(t *testing.T, system, machine string) (home string) {
	t.Helper()
	bin, home := t.TempDir(), t.TempDir()
	uname := fmt.Sprintf("#!/bin/sh\ncase $1 in -s) echo %s;; -m) echo %s;; esac\n", system, machine)
	ssh := fmt.Sprintf("#!/bin/sh\nshift 3\nexport HOME=%s\nunset XDG_CACHE_HOME\nexec sh -c \"$1\"\n", home)
	for name, text := range map[string]string{"uname": uname, "ssh": ssh} {
		testkit.Must(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return home
}

// programFor returns a program for an architecture, as its ELF header states it: this binary for
// the machine's own, otherwise a file that does not run here.
func programFor(t *testing.T, number byte) (*fleet.Program, string) {
	t.Helper()
	own, err := os.Executable()
	testkit.Must(t, err)
	name := own
	if number != 0 {
		name = filepath.Join(t.TempDir(), "tare")
		header := make([]byte, 64)
		copy(header, "\x7fELF\x02\x01\x01")
		header[16], header[18], header[20], header[52] = 2, number, 1, 64
		testkit.Must(t, os.WriteFile(name, header, 0o755))
	}
	p, err := fleet.OpenProgram(name)
	testkit.Must(t, err)
	return p, name
}

// cached returns the files in the cache of a home directory.
func cached(t *testing.T, home string) (files []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(home, ".cache", "tare", "*", "*"))
	testkit.Must(t, err)
	return files
}

// elfRISCV is the number of an architecture in ELF headers.
const elfRISCV = 243

// ownMachine returns this machine's architecture, as uname reports it.
func ownMachine(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("uname", "-m").Output()
	testkit.Must(t, err)
	return strings.TrimSpace(string(out))
}

// Each host receives the program for its architecture, once.
func TestSSHCopiesTheProgramOfTheArchitecture(t *testing.T) {
	testkit.Long(t, "it starts agents")
	own, ownName := programFor(t, 0)
	risc, riscName := programFor(t, elfRISCV)
	for machine, test := range map[string]struct {
		name string
		runs bool
	}{ownMachine(t): {ownName, true}, "riscv64": {riscName, false}} {
		t.Run(machine, func(t *testing.T) {
			home := elsewhere(t, "Linux", machine)
			hosts := []fleet.Host{fleet.SSH("h", []*fleet.Program{risc, own}), fleet.SSH("h", []*fleet.Program{risc,
				own})}
			for range 2 {
				f, err := fleet.Open(context.Background(), hosts, fleet.Options{})
				if (err == nil) != test.runs {
					t.Fatal(err)
				}
				if err == nil {
					url, _ := server(t)
					r, err := f.Run(context.Background(), load.Plan{URL: url, Connections: 2, Requests: 20})
					if err != nil || r.Requests != 20 || r.Parts[0].Name != "h-1" || r.Parts[1].Name != "h-2" {
						t.Errorf("%+v, %v", r, err)
					}
					f.Close()
				}
				files := cached(t, home)
				if len(files) != 1 {
					t.Fatalf("files %v", files)
				}
				got, err1 := os.ReadFile(files[0])
				want, err2 := os.ReadFile(test.name)
				if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
					t.Errorf("the copied program is not %s: %v, %v", test.name, err1, err2)
				}
			}
		})
	}
}

// A host that no program fits is an error that says what to build, and nothing is copied.
func TestSSHReportsAMissingProgram(t *testing.T) {
	testkit.Long(t, "it starts agents")
	own, _ := programFor(t, 0)
	risc, _ := programFor(t, elfRISCV)
	for _, test := range []struct{ system, machine, want string }{
		{"Linux", "ppc64le",
			"its architecture is ppc64le, and no program of tare is for it: build one with GOOS=linux GOARCH=ppc64le"},
		{"Linux", "armv7l", "GOARCH=arm"},
		{"FreeBSD", "amd64", `its system is "FreeBSD": want Linux`},
	} {
		home := elsewhere(t, test.system, test.machine)
		_, err := fleet.Open(context.Background(), []fleet.Host{fleet.SSH("h", []*fleet.Program{own, risc})},
			fleet.Options{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
		_, isMissing := errors.AsType[*fleet.NoProgramError](err)
		if isMissing != (test.system == "Linux") || len(cached(t, home)) > 0 {
			t.Errorf("%v; files %v", err, cached(t, home))
		}
	}
}
