package http2_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/internal/wire/http2"
)

// pageHeads returns the heads of a connection: a browser requests pages and receives responses.
// Fields recur, change, and are evicted.
func pageHeads(n int) (heads [][][2]string) {
	for i := range n {
		heads = append(heads, [][2]string{
			{":method", "GET"}, {":scheme", "https"}, {":path", fmt.Sprintf("/page/%d?%s", i, strings.Repeat("q", i))},
			{":authority", fmt.Sprintf("host%d.example", i%3)},
			{"user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
			{"accept-language", "de,en-US;q=0.7,en;q=0.3"}, {"cookie", strings.Repeat("a=b;", i)},
			{"x-request-id", fmt.Sprintf("%x", i*i*i*7919)}, {"x-empty", ""},
		}, [][2]string{
			{":status", fmt.Sprint(200 + i%5)}, {"content-length", fmt.Sprint(i * 1000)},
			{"date", fmt.Sprintf("Mon, 21 Oct 2013 20:13:%02d GMT", i%60)}, {"vary", "accept-encoding"},
			{"etag", strings.Repeat("e", i%7)}, {"x-visible", "!#$%&'()*+,-./0123456789:;<=>?@[]^_`{|}~ \u00e4"},
		})
	}
	return heads
}

// The decoder reads what Python's hpack encodes, with tables of all sizes that change meanwhile.
func TestDecoderReadsAnotherEncoder(t *testing.T) {
	python, env := programs.HTTPX(t)
	heads := pageHeads(100)
	for _, tableSize := range []int{0, 100, 256, 4096, 8192} {
		var in bytes.Buffer
		for i, head := range heads {
			line := []any{nil, head}
			switch i % 20 {
			case 0:
				line[0] = tableSize
			case 10:
				line[0] = tableSize / 2
			}
			if err := json.NewEncoder(&in).Encode(line); err != nil {
				t.Fatal(err)
			}
		}
		c := testkit.Command(t, python, filepath.Join("testdata", "encode.py"))
		c.Env, c.Stdin = slices.Concat(os.Environ(), env), &in
		out, err := c.CombinedOutput()
		blocks := strings.Fields(string(out))
		if err != nil || len(blocks) != len(heads) {
			t.Fatalf("%v: %d blocks: %.500s", err, len(blocks), out)
		}
		d := http2.NewDecoder(tableSize)
		var b http2.HeaderBlock
		for i, block := range blocks {
			encoded, err := hex.DecodeString(block)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Decode(encoded, wideLimits(), &b); err != nil {
				t.Fatalf("table of %d bytes, head %d: %v", tableSize, i, err)
			}
			want := ""
			for _, f := range heads[i] {
				want += f[0] + ": " + f[1] + "\n"
			}
			if got := list(&b); got != want {
				t.Errorf("table of %d bytes, head %d: got %q, want %q", tableSize, i, got, want)
			}
		}
	}
}
