package main

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// The parts of SPDX 2.3 that a list of modules needs (https://spdx.github.io/spdx-spec/v2.3/).
type (
	spdxDocument struct {
		SPDXVersion       string             `json:"spdxVersion"`
		DataLicense       string             `json:"dataLicense"`
		SPDXID            string             `json:"SPDXID"`
		Name              string             `json:"name"`
		DocumentNamespace string             `json:"documentNamespace"`
		CreationInfo      spdxCreation       `json:"creationInfo"`
		Packages          []spdxPackage      `json:"packages"`
		Relationships     []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		SPDXID           string          `json:"SPDXID"`
		Name             string          `json:"name"`
		VersionInfo      string          `json:"versionInfo"`
		PackageFileName  string          `json:"packageFileName,omitempty"`
		DownloadLocation string          `json:"downloadLocation"`
		FilesAnalyzed    bool            `json:"filesAnalyzed"`
		Checksums        []spdxChecksum  `json:"checksums,omitempty"`
		SourceInfo       string          `json:"sourceInfo,omitempty"`
		LicenseConcluded string          `json:"licenseConcluded"`
		LicenseDeclared  string          `json:"licenseDeclared"`
		CopyrightText    string          `json:"copyrightText"`
		ExternalRefs     []spdxReference `json:"externalRefs"`
	}
	spdxChecksum struct {
		Algorithm     string `json:"algorithm"`
		ChecksumValue string `json:"checksumValue"`
	}
	spdxReference struct {
		ReferenceCategory string `json:"referenceCategory"`
		ReferenceType     string `json:"referenceType"`
		ReferenceLocator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		SPDXElementID      string `json:"spdxElementId"`
		RelationshipType   string `json:"relationshipType"`
		RelatedSPDXElement string `json:"relatedSpdxElement"`
	}
)

const (
	spdxDocumentID = "SPDXRef-DOCUMENT"
	spdxProgramID  = "SPDXRef-program"
	spdxUnknown    = "NOASSERTION"
)

// sbom returns a list of the modules in a binary as SPDX: the linked modules, which the binary
// lists, and the standard library. file and sum are the binary's name and SHA-256.
func sbom(info *debug.BuildInfo, r release, file, sum string) ([]byte, error) {
	program := newSPDXPackage(spdxProgramID, productName, r.version, "golang/"+modulePath)
	program.PackageFileName = file
	program.Checksums = []spdxChecksum{{"SHA256", sum}}
	program.LicenseConcluded, program.LicenseDeclared = license, license
	program.CopyrightText = vendor

	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ") // without experiments
	all := []spdxPackage{program, newSPDXPackage("SPDXRef-stdlib", "stdlib", goVersion, "golang/stdlib")}
	for i, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p := newSPDXPackage(fmt.Sprintf("SPDXRef-module-%d", i+1), m.Path, m.Version, "golang/"+m.Path)
		if m.Sum != "" {
			p.SourceInfo = "hash in go.sum: " + m.Sum
		}
		all = append(all, p)
	}
	doc := spdxDocument{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: spdxDocumentID, Name: file,
		DocumentNamespace: fmt.Sprintf("%s/spdx/%s-%s", homepage, file, sum),
		CreationInfo: spdxCreation{r.time.Format(time.RFC3339),
			[]string{"Organization: " + vendor, "Tool: " + modulePath + "/internal/dist"}},
		Packages:      all,
		Relationships: []spdxRelationship{{spdxDocumentID, "DESCRIBES", spdxProgramID}},
	}
	for _, p := range all[1:] {
		doc.Relationships = append(doc.Relationships, spdxRelationship{spdxProgramID, "DEPENDS_ON", p.SPDXID})
	}
	return indented(doc)
}

// newSPDXPackage returns a package with a package URL, which scanners look up.
func newSPDXPackage(id, name, version, purl string) spdxPackage {
	return spdxPackage{
		SPDXID: id, Name: name, VersionInfo: version, DownloadLocation: spdxUnknown,
		LicenseConcluded: spdxUnknown, LicenseDeclared: spdxUnknown, CopyrightText: spdxUnknown,
		ExternalRefs: []spdxReference{{"PACKAGE-MANAGER", "purl",
			"pkg:" + purl + "@" + strings.ReplaceAll(version, "+", "%2B")}},
	}
}

func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}
