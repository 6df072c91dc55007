package main

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

const (
	spdxDocumentID = "SPDXRef-DOCUMENT"
	spdxProgramID  = "SPDXRef-program"
	spdxUnknown    = "NOASSERTION"
)

// sbom returns a list of the modules in a binary as SPDX 2.3
// (https://spdx.github.io/spdx-spec/v2.3/): the linked modules, which the binary lists, and the
// standard library. file and sum are the binary's name and SHA-256.
func sbom(info *debug.BuildInfo, r release, file, sum string) ([]byte, error) {
	program := spdxPackage(spdxProgramID, productName, r.version, "golang/"+modulePath)
	program["packageFileName"] = file
	program["checksums"] = []object{{"algorithm": "SHA256", "checksumValue": sum}}
	program["licenseConcluded"], program["licenseDeclared"] = license, license
	program["copyrightText"] = vendor

	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ") // without experiments
	all := []object{program, spdxPackage("SPDXRef-stdlib", "stdlib", goVersion, "golang/stdlib")}
	for i, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p := spdxPackage(fmt.Sprintf("SPDXRef-module-%d", i+1), m.Path, m.Version, "golang/"+m.Path)
		if m.Sum != "" {
			p["sourceInfo"] = "hash in go.sum: " + m.Sum
		}
		all = append(all, p)
	}
	relations := []object{spdxRelation(spdxDocumentID, "DESCRIBES", spdxProgramID)}
	for _, p := range all[1:] {
		relations = append(relations, spdxRelation(spdxProgramID, "DEPENDS_ON", p["SPDXID"]))
	}
	return indented(object{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": spdxDocumentID, "name": file,
		"documentNamespace": fmt.Sprintf("%s/spdx/%s-%s", homepage, file, sum),
		"creationInfo": object{
			"created":  r.time.Format(time.RFC3339),
			"creators": []string{"Organization: " + vendor, "Tool: " + modulePath + "/internal/dist"},
		},
		"packages": all, "relationships": relations,
	})
}

// spdxPackage returns a package with a package URL, which scanners look up.
func spdxPackage(id, name, version, purl string) object {
	return object{
		"SPDXID": id, "name": name, "versionInfo": version, "downloadLocation": spdxUnknown, "filesAnalyzed": false,
		"licenseConcluded": spdxUnknown, "licenseDeclared": spdxUnknown, "copyrightText": spdxUnknown,
		"externalRefs": []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
			"referenceLocator": "pkg:" + purl + "@" + strings.ReplaceAll(version, "+", "%2B")}},
	}
}

func spdxRelation(from, kind string, to any) object {
	return object{"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to}
}

func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}
