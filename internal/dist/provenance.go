package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
)

const provenanceFile = "provenance.json"

// provenance writes from which commit, and how, the files in the folder were built, as an in-toto
// statement of SLSA 1.0 (https://slsa.dev/spec/v1.0/provenance). It is not signed.
func (a *artifacts) provenance(ctx context.Context) error {
	commit, err := git(ctx, a.source, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	all, err := checksums(a.folder)
	if err != nil {
		return err
	}
	var subjects []object
	for _, c := range all {
		subjects = append(subjects, object{"name": c.name, "digest": object{"sha256": c.sum}})
	}
	text, err := indented(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":          homepage + "/blob/" + commit + "/docs/install.md",
				"externalParameters": object{"version": a.release.version},
				"internalParameters": object{"go": runtime.Version()},
				"resolvedDependencies": []object{
					{"uri": "git+" + homepage, "digest": object{"gitCommit": commit}},
				},
			},
			"runDetails": object{"builder": object{"id": homepage + "/blob/" + commit + "/internal/dist"}},
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.folder, provenanceFile), text, 0o644)
}
