package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func testPages(t *testing.T) map[string][]byte {
	t.Helper()
	return testkit.Value(manPages(t.Context(), testRelease()))(t)
}

func TestManPagesAreReproducible(t *testing.T) {
	if a, b := testPages(t), testPages(t); !maps.EqualFunc(a, b, slices.Equal[[]byte]) {
		t.Error("two sets of pages differ")
	}
}

// Every command has a page, and a page has all flags of its command's help.
func TestManPagesHaveAllCommandsAndFlags(t *testing.T) {
	pages := testPages(t)
	for _, name := range []string{"tare", "tare-serve", "tare-load", "tare-load-compare", "tare-weigh", "tare-wrk",
		"tare-ab", "tare-siege", "tare-agent", "tare-report", "tare-version"} {
		if pages[name+".1"] == nil {
			t.Errorf("%s has no page", name)
		}
	}
	for name, text := range pages {
		args := append([]string{"help"}, strings.Split(strings.TrimSuffix(name, ".1"), "-")[1:]...)
		help := testkit.Value(help(t.Context(), args...))(t)
		_, flags, _ := strings.Cut(help, "\nFlags:\n")
		want := 0
		for line := range strings.Lines(flags) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "-") {
				want++
			}
		}
		if got := strings.Count(string(text), "\n.TP\n"); got != want || want == 0 {
			t.Errorf("%s has %d flags, the help has %d", name, got, want)
		}
	}
}

func TestManPagesHaveSectionsAndEscapes(t *testing.T) {
	const help = `Do it.
Really.

  a   first
      more

.Last 'word' \n.

Usage:
  tare do [flags]

Examples:
  tare do --it       # now
    deeper

Flags:
  -f, --file "A B"   read this FILE
      --long TIME    wait
                     (default none)
  -h, --help         help for do

Use "tare [command] --help" for more information about a command.
`
	const want = `.TH TARE\-DO 1 "2026\-02\-03" "tare v1.2.3\-rc.1" "User Commands"
.SH NAME
tare\-do \- Do
.SH SYNOPSIS
.nf
tare do [flags]
.fi
.SH DESCRIPTION
Do it.
Really.
.PP
.nf
  a   first
      more
.fi
.PP
\&.Last \(aqword\(aq \(rsn.
.SH OPTIONS
.TP
\fB\-f, \-\-file "A B"\fR
read this FILE
.TP
\fB\-\-long TIME\fR
wait
(default none)
.TP
\fB\-h, \-\-help\fR
help for do
.SH EXAMPLES
.nf
tare do \-\-it       # now
  deeper
.fi
.SH SEE ALSO
\fBnginx\fR(8), \fBtare\fR(1)
.PP
https://github.com/tarehq/tare
`
	p := page{command: []string{"do"}, short: "Do"}
	testkit.Equal(t, string(p.format(splitHelp(help), testRelease())), want)
}

// man formats all pages without a warning.
func TestManPagesAreValid(t *testing.T) {
	needPrograms(t, "man")
	dir, args := t.TempDir(), []string{"--warnings", "--encoding=UTF-8", "--local-file"}
	pages := testPages(t)
	for name, text := range pages {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, text, 0o644))
		args = append(args, path)
	}
	c := testkit.Command(t, "man", args...)
	c.Env = append(os.Environ(), "MANWIDTH=100", "LC_ALL=C.UTF-8")
	var messages strings.Builder
	c.Stderr = &messages
	out, err := c.Output()
	if err != nil || messages.Len() != 0 {
		t.Errorf("%v: %s", err, messages.String())
	}
	testkit.Equal(t, strings.Count(string(out), "SEE ALSO"), len(pages), "pages with their last section")
}
