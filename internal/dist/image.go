package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// A container image without a base, as a tar file of the OCI's image layout
// (https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md).

// imageUser is the user and group of the container's process. It owns no files.
const imageUser = 65532

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type (
	ociDescriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Platform    *ociPlatform      `json:"platform,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	ociPlatform struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}
	ociIndex struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Manifests     []ociDescriptor `json:"manifests"`
	}
	ociManifest struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		Config        ociDescriptor     `json:"config"`
		Layers        []ociDescriptor   `json:"layers"`
		Annotations   map[string]string `json:"annotations"`
	}
	ociConfig struct {
		Created      string       `json:"created"`
		Author       string       `json:"author"`
		Architecture string       `json:"architecture"`
		OS           string       `json:"os"`
		Config       ociProcess   `json:"config"`
		RootFS       ociRootFS    `json:"rootfs"`
		History      []ociHistory `json:"history"`
	}
	ociProcess struct {
		User         string              `json:"User"`
		ExposedPorts map[string]struct{} `json:"ExposedPorts"`
		Env          []string            `json:"Env"`
		Entrypoint   []string            `json:"Entrypoint"`
		Cmd          []string            `json:"Cmd"`
		WorkingDir   string              `json:"WorkingDir"`
		Labels       map[string]string   `json:"Labels"`
	}
	ociRootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	ociHistory struct {
		Created   string `json:"created"`
		CreatedBy string `json:"created_by"`
	}
)

// imageFiles returns the files of the image, folders before their content.
func imageFiles(binary, modules, license []byte) []file {
	passwd := fmt.Sprintf("root:x:0:0:root:/:/nonexistent\ntare:x:%d:%[1]d:tare:/:/nonexistent\n", imageUser)
	group := fmt.Sprintf("root:x:0:\ntare:x:%d:\n", imageUser)
	return []file{
		{path: "etc/", mode: 0o755},
		{path: "etc/group", mode: 0o644, text: []byte(group)},
		{path: "etc/passwd", mode: 0o644, text: []byte(passwd)},
		{path: "srv/", mode: 0o755},
		{path: "srv/www/", mode: 0o755},
		{path: "tmp/", mode: 0o1777},
		{path: "usr/", mode: 0o755},
		{path: "usr/bin/", mode: 0o755},
		{path: "usr/bin/tare", mode: 0o755, text: binary},
		{path: "usr/share/", mode: 0o755},
		{path: "usr/share/doc/", mode: 0o755},
		{path: "usr/share/doc/tare/", mode: 0o755},
		{path: "usr/share/doc/tare/LICENSE", mode: 0o644, text: license},
		{path: "usr/share/doc/tare/tare.spdx.json", mode: 0o644, text: modules},
	}
}

func writeImage(w io.Writer, arch string, r release, files []file) error {
	plain, err := tarOf(files, r.time)
	if err != nil {
		return err
	}
	packed, err := gzipOf(plain)
	if err != nil {
		return err
	}
	created := r.time.Format(time.RFC3339)
	labels := map[string]string{
		"org.opencontainers.image.created": created, "org.opencontainers.image.description": summary,
		"org.opencontainers.image.licenses": license, "org.opencontainers.image.source": homepage,
		"org.opencontainers.image.title": productName, "org.opencontainers.image.vendor": vendor,
		"org.opencontainers.image.version": r.version,
	}
	config, err := json.Marshal(ociConfig{
		Created: created, Author: vendor, Architecture: arch, OS: "linux",
		Config: ociProcess{
			User: fmt.Sprintf("%d:%[1]d", imageUser), ExposedPorts: map[string]struct{}{"8080/tcp": {}},
			Env:        []string{"PATH=/usr/bin", "XDG_CACHE_HOME=/tmp"}, // tare weigh unpacks its experiments there
			Entrypoint: []string{"/usr/bin/tare"},
			Cmd:        []string{"serve", "/srv/www"}, WorkingDir: "/", Labels: labels,
		},
		RootFS:  ociRootFS{"layers", []string{digest(plain)}},
		History: []ociHistory{{created, "make dist"}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(ociManifest{
		SchemaVersion: 2, MediaType: typeManifest, Config: describe(typeConfig, config),
		Layers: []ociDescriptor{describe(typeLayer, packed)}, Annotations: labels,
	})
	if err != nil {
		return err
	}
	entry := describe(typeManifest, manifest)
	entry.Platform = &ociPlatform{arch, "linux"}
	entry.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.fileVersion()}
	index, err := json.Marshal(ociIndex{SchemaVersion: 2, MediaType: typeIndex, Manifests: []ociDescriptor{entry}})
	if err != nil {
		return err
	}
	layout := []file{
		{path: "oci-layout", mode: 0o644, text: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{path: "index.json", mode: 0o644, text: index},
		{path: "blobs/", mode: 0o755},
		{path: "blobs/sha256/", mode: 0o755},
	}
	for _, blob := range [][]byte{manifest, config, packed} {
		layout = append(layout, file{path: "blobs/sha256/" + hexSum(blob), mode: 0o644, text: blob})
	}
	all, err := tarOf(layout, r.time)
	if err != nil {
		return err
	}
	_, err = w.Write(all)
	return err
}

func digest(b []byte) string { return "sha256:" + hexSum(b) }

func describe(mediaType string, b []byte) ociDescriptor {
	return ociDescriptor{MediaType: mediaType, Digest: digest(b), Size: len(b)}
}

// tarOf returns files as a tar archive that is equal for equal files: all belong to root and have
// the same time.
func tarOf(files []file, t time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var failed error
	for _, f := range files {
		kind := byte(tar.TypeReg)
		if f.isFolder() {
			kind = tar.TypeDir
		}
		err := w.WriteHeader(&tar.Header{Typeflag: kind, Name: f.path, Mode: f.mode, Size: int64(len(f.text)),
			ModTime: t, Format: tar.FormatUSTAR})
		if err == nil {
			_, err = w.Write(f.text)
		}
		failed = cmp.Or(failed, err)
	}
	failed = cmp.Or(failed, w.Close())
	return b.Bytes(), failed
}

// gzipOf compresses b. The header has neither a time nor a name.
func gzipOf(b []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(b); err == nil {
		err = w.Close()
	}
	return packed.Bytes(), err
}
