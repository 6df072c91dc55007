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
	labels := object{
		"org.opencontainers.image.created": created, "org.opencontainers.image.description": summary,
		"org.opencontainers.image.licenses": license, "org.opencontainers.image.source": homepage,
		"org.opencontainers.image.title": productName, "org.opencontainers.image.vendor": vendor,
		"org.opencontainers.image.version": r.version,
	}
	config, err := json.Marshal(object{
		"created": created, "author": vendor, "architecture": arch, "os": "linux",
		"config": object{
			"User": fmt.Sprintf("%d:%[1]d", imageUser), "ExposedPorts": object{"8080/tcp": object{}},
			"Env":        []string{"PATH=/usr/bin", "XDG_CACHE_HOME=/tmp"}, // tare weigh unpacks its experiments there
			"Entrypoint": []string{"/usr/bin/tare"}, "Cmd": []string{"serve", "/srv/www"}, "WorkingDir": "/",
			"Labels": labels,
		},
		"rootfs":  object{"type": "layers", "diff_ids": []string{digest(plain)}},
		"history": []object{{"created": created, "created_by": "make dist"}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(object{
		"schemaVersion": 2, "mediaType": typeManifest, "config": describe(typeConfig, config),
		"layers": []object{describe(typeLayer, packed)}, "annotations": labels,
	})
	if err != nil {
		return err
	}
	entry := describe(typeManifest, manifest)
	entry["platform"] = object{"architecture": arch, "os": "linux"}
	entry["annotations"] = object{"org.opencontainers.image.ref.name": r.fileVersion()}
	index, err := json.Marshal(object{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []object{entry}})
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

func describe(mediaType string, b []byte) object {
	return object{"mediaType": mediaType, "digest": digest(b), "size": len(b)}
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
