package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"

	"github.com/tarehq/tare/internal/lab/profile"
)

// sampled returns a profile of a contender: stacks of two functions, with their samples.
func sampled(name, title string, parse, write int) profile.Profile {
	main, parser := profile.Frame{Name: "main.main"}, profile.Frame{Name: "net/http.<parse>", Module: "app"}
	call := profile.Frame{Name: "__x64_sys_write", Kernel: true}
	return profile.Profile{
		Contender: name, Title: title, Condition: "64 connections", Requests: 1000, Period: time.Millisecond,
		Stacks: []profile.Stack{
			{Role: "application", Count: parse, Frames: []profile.Frame{main, parser}},
			{Role: "application", Count: write, Frames: []profile.Frame{main, call}},
		},
	}
}

// The page has a flame graph of each contender, and says what carries the difference.
func TestPageShowsProfiles(t *testing.T) {
	run := fixture()
	run.Profiles = []profile.Profile{sampled("tare", "tare", 5, 20), sampled("nethttp", "net/http", 30, 20)}
	run.Profiles[1].IsControl = true
	dir := t.TempDir()
	a := New(run)
	if err := a.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, PageFile))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	const sentence = "tare spends 25.0 µs less on a request than net/http: 25.0 µs (100 %) is net/http."
	for _, want := range []string{
		sentence, "net/http.&lt;parse&gt;: 30.00 µs, 60.0 %", `class="flame-kernel"`, "flame-less-4",
		"go tool pprof profiles/tare.pb.gz",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	control, other := strings.Index(page, "<h3>net/http: 50.0 µs"), strings.Index(page, "<h3>tare: 25.0 µs")
	if control < 0 || control > other {
		t.Errorf("the control is not first: %d, %d", control, other)
	}
	f, err := os.Open(filepath.Join(dir, "profiles/nethttp.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if p, err := pprof.Parse(f); err != nil || len(p.Sample) != 2 {
		t.Error(p, err)
	}
	var b strings.Builder
	err = a.WriteText(&b)
	if err != nil || !strings.Contains(strings.Join(strings.Fields(b.String()), " "), sentence) {
		t.Error(err, b.String())
	}
}

// Without profiles the page has no such part.
func TestPageWithoutProfiles(t *testing.T) {
	dir := t.TempDir()
	if err := New(fixture()).WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, PageFile))
	if err != nil || strings.Contains(string(text), "<svg class=\"flame\"") {
		t.Error(err, "a flame graph without samples")
	}
	if _, err := os.Stat(filepath.Join(dir, ProfilesDir)); err == nil {
		t.Error("a folder without profiles")
	}
}
