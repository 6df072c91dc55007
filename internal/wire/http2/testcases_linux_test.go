package http2_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http1"
	"github.com/tarehq/tare/internal/wire/http2"
)

// story is a connection's heads, as the collection hpack-test-case has them.
type story struct {
	Cases []struct {
		TableSize int                 `json:"header_table_size"` // 0 if it does not change
		Wire      string              `json:"wire"`
		Headers   []map[string]string `json:"headers"` // of one field each
	} `json:"cases"`
}

// check decodes the story's heads. It returns how many there are.
func (s *story) check(t *testing.T) int {
	tableSize := 4096
	for _, c := range s.Cases {
		tableSize = max(tableSize, c.TableSize)
	}
	d := http2.NewDecoder(tableSize)
	var b http2.HeaderBlock
	for i, c := range s.Cases {
		encoded, err := hex.DecodeString(c.Wire)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Decode(encoded, wideLimits(), &b); err != nil {
			t.Fatalf("head %d: %v", i, err)
		}
		if got, want := list(&b), describe(c.Headers); got != want {
			t.Fatalf("head %d: got %q, want %q", i, got, want)
		}
	}
	return len(s.Cases)
}

// describe returns fields in the form and order of list, without those of HTTP/1 connections, which
// are forbidden in HTTP/2 (RFC 9113, 8.2.2). The browsers of the collection have sent them.
func describe(fields []map[string]string) string {
	lines := make(map[string]string) // of pseudo-header fields
	rest := ""
	for _, field := range fields {
		for name, value := range field {
			line := name + ": " + value + "\n"
			switch {
			case name[0] == ':':
				lines[name] = line
			case !http1.ConcernsConnection(http.CanonicalHeaderKey(name)):
				rest += line
			}
		}
	}
	return lines[":method"] + lines[":scheme"] + lines[":path"] + lines[":authority"] + lines[":status"] + rest
}

// The decoder reads the heads of hpack-test-case, which a dozen encoders have encoded. The npm
// package "hpack" contains them.
func TestDecoderReadsTestCases(t *testing.T) {
	const leastHeads = 10_000
	drafts := []string{"hyper-hpack", "node-http2-protocol", "twitter-hpack"} // encoders of drafts of RFC 7541
	if os.Getenv("TARE_SLOW") == "" {
		t.Skip("TARE_SLOW is not set: it downloads a package of npm")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	c := testkit.Command(t, "npm", "pack", "--silent", "hpack@1.0.0")
	c.Dir = t.TempDir()
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(path.Join(c.Dir, strings.TrimSpace(string(out))))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	heads := 0
	for files := tar.NewReader(plain); ; {
		f, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		encoder, base := path.Base(path.Dir(f.Name)), path.Base(f.Name)
		if !strings.HasPrefix(base, "story_") || encoder == "raw-data" || slices.Contains(drafts, encoder) {
			continue
		}
		var s story
		if err := json.NewDecoder(files).Decode(&s); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		t.Run(path.Join(encoder, base), func(t *testing.T) { heads += s.check(t) })
	}
	if heads < leastHeads {
		t.Errorf("%d heads: want %d", heads, leastHeads)
	}
	t.Logf("%d heads", heads)
}
