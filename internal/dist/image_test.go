package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// readTar returns an archive's headers and contents by name.
func readTar(t *testing.T, r io.Reader) (headers map[string]*tar.Header, texts map[string][]byte) {
	t.Helper()
	headers, texts = make(map[string]*tar.Header), make(map[string][]byte)
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers, texts
		}
		testkit.Must(t, err)
		if parent := path.Dir(strings.TrimSuffix(h.Name, "/")); parent != "." && headers[parent+"/"] == nil {
			t.Errorf("%s is before its folder", h.Name)
		}
		if texts[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
		if headers[h.Name] != nil {
			t.Errorf("%s is there twice", h.Name)
		}
		headers[h.Name] = h
	}
}

func testImage(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	files := imageFiles([]byte("the program"), []byte("{}"), []byte("the license"))
	testkit.Must(t, writeImage(&b, "arm64", testRelease(), files))
	return b.Bytes()
}

func TestImagesAreReproducible(t *testing.T) {
	if a, b := testImage(t), testImage(t); !bytes.Equal(a, b) {
		t.Error("two images of the same files differ")
	}
}

// Every descriptor of the layout names a blob with its digest and size, and no blob is superfluous.
// The image specification, image-layout.md and config.md.
func TestImageLayoutIsValid(t *testing.T) {
	_, layout := readTar(t, bytes.NewReader(testImage(t)))
	used := make(map[string]bool)
	blob := func(d ociDescriptor, mediaType string) []byte {
		t.Helper()
		name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
		b, ok := layout[name]
		if used[name] = true; !ok || d.MediaType != mediaType || d.Size != len(b) || d.Digest != "sha256:"+hexSum(b) {
			t.Fatalf("%+v: found %v, %d bytes, want type %s", d, ok, len(b), mediaType)
		}
		return b
	}
	decode := func(b []byte, v any) {
		t.Helper()
		decoder := json.NewDecoder(bytes.NewReader(b))
		decoder.DisallowUnknownFields()
		testkit.Must(t, decoder.Decode(v))
	}
	if got := string(layout["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %s", got)
	}
	var index ociIndex
	decode(layout["index.json"], &index)
	if len(index.Manifests) != 1 || *index.Manifests[0].Platform != (ociPlatform{"arm64", "linux"}) {
		t.Fatalf("got manifests %+v, want one", index.Manifests)
	}
	var manifest ociManifest
	decode(blob(index.Manifests[0], typeManifest), &manifest)
	var config ociConfig
	decode(blob(manifest.Config, typeConfig), &config)
	if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 || config.Architecture != "arm64" {
		t.Fatalf("got %+v and %+v, want one layer for arm64", manifest, config)
	}
	packed, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0], typeLayer)))
	testkit.Must(t, err)
	layer, err := io.ReadAll(packed)
	testkit.Must(t, err)
	if got := digest(layer); got != config.RootFS.DiffIDs[0] {
		t.Errorf("the layer is %s, the configuration says %s", got, config.RootFS.DiffIDs[0])
	}
	for name := range layout {
		if strings.HasPrefix(name, "blobs/sha256/") && name != "blobs/sha256/" && !used[name] {
			t.Errorf("nothing refers to %s", name)
		}
	}
	checkLayer(t, layer, config.Config)
}

// checkLayer checks what a container's process needs: its program, and a folder that it can write.
func checkLayer(t *testing.T, layer []byte, process ociProcess) {
	headers, texts := readTar(t, bytes.NewReader(layer))
	program := strings.TrimPrefix(process.Entrypoint[0], "/")
	if h := headers[program]; h == nil || h.FileInfo().Mode() != 0o755 || string(texts[program]) != "the program" {
		t.Errorf("%s: %+v", program, headers[program])
	}
	if folder := process.Cmd[len(process.Cmd)-1]; headers[strings.TrimPrefix(folder, "/")+"/"] == nil {
		t.Errorf("the folder that is served, %s, is missing", folder)
	}
	if got, want := headers["tmp/"].FileInfo().Mode(), fs.ModeDir|fs.ModeSticky|0o777; got != want {
		t.Errorf("/tmp has mode %v, want %v", got, want)
	}
	for name, h := range headers {
		if !h.ModTime.Equal(testRelease().time) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if user, _, _ := strings.Cut(process.User, ":"); !strings.Contains(string(texts["etc/passwd"]), ":x:"+user+":") {
		t.Errorf("user %s is not in /etc/passwd", user)
	}
}
