package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

func TestModuleListsAreReproducible(t *testing.T) {
	a := testkit.Value(sbom(buildInfo(), testRelease(), "tare-1-linux-arm64", "00"))(t)
	if b, err := sbom(buildInfo(), testRelease(), "tare-1-linux-arm64", "00"); err != nil || !bytes.Equal(a, b) {
		t.Error("two lists of the same modules differ", err)
	}
}

// The provenance names the commit and each file with its hash.
func TestProvenanceNamesCommitAndFiles(t *testing.T) {
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	testkit.WriteFile(t, filepath.Join(a.folder, "foreign"), "a")
	testkit.Must(t, a.provenance(t.Context()))
	text := testkit.Value(os.ReadFile(filepath.Join(a.folder, provenanceFile)))(t)
	var got struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters   map[string]string
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	testkit.Must(t, json.Unmarshal(text, &got))
	commit := testkit.Value(git(t.Context(), a.source, "rev-parse", "HEAD"))(t)
	const sum = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
	build := got.Predicate.BuildDefinition
	if len(got.Subject) != 1 || got.Subject[0].Name != "foreign" || got.Subject[0].Digest["sha256"] != sum ||
		build.ExternalParameters["version"] != a.release.version ||
		len(build.ResolvedDependencies) != 1 || build.ResolvedDependencies[0].Digest["gitCommit"] != commit {
		t.Errorf("%s", text)
	}
}

func decodeSBOM(t *testing.T, text []byte) (doc spdxDocument) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	testkit.Must(t, decoder.Decode(&doc))
	return doc
}

// A list names the program with its hash, the standard library and all modules, by package URLs
// that vulnerability scanners know. A replaced module is the replacement.
func TestModuleListNamesEverything(t *testing.T) {
	text := testkit.Value(sbom(buildInfo(), testRelease(), "tare-1-linux-arm64", "00ff"))(t)
	doc := decodeSBOM(t, text)
	var locators []string
	ids := make(map[string]bool)
	for _, p := range doc.Packages {
		locators = append(locators, p.ExternalRefs[0].ReferenceLocator)
		if ids[p.SPDXID] {
			t.Errorf("%s is there twice", p.SPDXID)
		}
		ids[p.SPDXID] = true
	}
	want := "pkg:golang/github.com/tarehq/tare@v1.2.3-rc.1 pkg:golang/stdlib@1.26.1 " +
		"pkg:golang/example.org/a@v1.0.0 pkg:golang/example.org/fork@v2.0.1%2Bincompatible"
	testkit.Equal(t, strings.Join(locators, " "), want)
	if got := doc.Packages[0].Checksums; len(got) != 1 || got[0].ChecksumValue != "00ff" {
		t.Errorf("the program's checksums are %v", got)
	}
	testkit.Equal(t, len(doc.Relationships), len(doc.Packages), "relationships")
	for _, r := range doc.Relationships {
		if !ids[r.RelatedSPDXElement] {
			t.Errorf("%+v refers to nothing", r)
		}
	}
}

// The list of a real binary, this test, has the modules that the binary names.
func TestModuleListAgreesWithTheBinary(t *testing.T) {
	program := testkit.Value(os.Executable())(t)
	info := testkit.Value(buildinfo.ReadFile(program))(t)
	text := testkit.Value(sbom(info, testRelease(), "test", "00"))(t)
	found := false
	for _, p := range decodeSBOM(t, text).Packages {
		found = found || p.Name == "github.com/spf13/cobra" && strings.HasPrefix(p.SourceInfo, "hash in go.sum: h1:")
	}
	if !found {
		t.Errorf("no cobra with its hash in\n%s", text)
	}
}
