package http2_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http1"
	"github.com/tarehq/tare/internal/wire/http2"
)

func wideLimits() http1.Limits { return http1.Limits{Bytes: 1 << 20, Fields: 1000} }

// list returns the fields of a block as text, in order, pseudo-header fields first.
func list(b *http2.HeaderBlock) string {
	var out strings.Builder
	for _, pseudo := range []struct {
		name string
		span http1.Span
	}{
		{":method", b.Method}, {":scheme", b.Scheme}, {":path", b.Path}, {":authority", b.Authority},
		{":status", b.Status},
	} {
		if pseudo.span.End > pseudo.span.Start {
			fmt.Fprintf(&out, "%s: %s\n", pseudo.name, pseudo.span.In(b.Text))
		}
	}
	for _, f := range b.Fields {
		name := strings.ToLower(f.Known.String())
		if f.Known == http1.NameUnknown {
			name = string(f.Name.In(b.Text))
		}
		fmt.Fprintf(&out, "%s: %s\n", name, f.Value.In(b.Text))
	}
	return out.String()
}

func mustDecode(t *testing.T, d *http2.Decoder, block []byte, limits http1.Limits, b *http2.HeaderBlock) {
	t.Helper()
	if err := d.Decode(block, limits, b); err != nil { // as an error, a nil *Error is not nil
		t.Fatal(err)
	}
}

// TestDecoderAgreesWithXNet decodes what golang.org/x/net encodes, over many blocks with table size
// changes.
func TestDecoderAgreesWithXNet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var encoded bytes.Buffer
		encoder := hpack.NewEncoder(&encoded)
		encoder.SetMaxDynamicTableSizeLimit(8192)
		d := http2.NewDecoder(8192)
		var b http2.HeaderBlock
		for range 40 {
			encoded.Reset()
			if random.IntN(8) == 0 {
				encoder.SetMaxDynamicTableSize(uint32(random.IntN(8193)))
			}
			want := writeRandomFields(encoder, random)
			mustDecode(t, &d, encoded.Bytes(), wideLimits(), &b)
			if got := list(&b); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	}
}

func writeRandomFields(encoder *hpack.Encoder, random *rand.Rand) (text string) {
	names := []string{"x-a", "accept", "user-agent", "x-long-name-of-a-field", "content-type", "cookie", "via"}
	var out strings.Builder
	for range random.IntN(12) {
		value := make([]byte, random.IntN(60))
		for i := range value {
			value[i] = byte('!' + random.IntN(94))
			if random.IntN(10) == 0 {
				value[i] = byte(128 + random.IntN(128))
			}
		}
		if random.IntN(3) == 0 {
			value = []byte("the same value")
		}
		f := hpack.HeaderField{
			Name: names[random.IntN(len(names))], Value: string(value), Sensitive: random.IntN(5) == 0,
		}
		if err := encoder.WriteField(f); err != nil {
			panic(err)
		}
		fmt.Fprintf(&out, "%s: %s\n", f.Name, f.Value)
	}
	return out.String()
}

// All entries of the static table are those of golang.org/x/net, and their names are classified.
func TestStaticTableIsThatOfRFC7541(t *testing.T) {
	var want []hpack.HeaderField
	reference := hpack.NewDecoder(4096, func(f hpack.HeaderField) { want = append(want, f) })
	for i := 1; i <= 61; i++ {
		in := []byte{0x80 | byte(i)}
		testkit.Value(reference.Write(in))(t)
		var b http2.HeaderBlock
		d := http2.NewDecoder(4096)
		mustDecode(t, &d, in, wideLimits(), &b)
		f := want[i-1]
		line := f.Name + ": " + f.Value + "\n"
		if f.Name == ":authority" || f.Name == "transfer-encoding" { // empty, and never allowed
			line = ""
		}
		testkit.Equal(t, list(&b), line, i)
	}
}

// FuzzHuffman compares valid and invalid encodings with golang.org/x/net.
func FuzzHuffman(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0xff})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0xff, 0xff, 0xff, 0xfc})
	f.Add(hpack.AppendHuffmanString(nil, "/index.html?a=\x00\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		want, err := hpack.HuffmanDecodeToString(in)
		got, ok := http2.AppendHuffmanDecoded(nil, in)
		if ok != (err == nil) || ok && string(got) != want {
			t.Errorf("%x: got %q %v, want %q %v", in, got, ok, want, err)
		}
	})
}

// FuzzDecode compares any sequence of blocks with golang.org/x/net: the result and every error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x82\x86\x84\x41\x0fwww.example.com"), []byte("\x82\x86\x84\xbe\x58\x08no-cache"))
	f.Add([]byte("\x20\x3f\xe1\x1f\x82"), []byte("\x82\x20"))
	f.Add([]byte("\x40\x01a\x01b\xbe"), []byte("\x7e\x01c\xbe\xbf"))
	f.Add([]byte("\x40\x01a\x01b"), []byte("\x3f\x09\x40\x09aaaaaaaaa\x00\xbe")) // larger than the table
	f.Add([]byte("\x00\x81\xff\x00"), []byte("\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var want strings.Builder
		reference := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
			want.WriteString(f.Name + "=" + f.Value + "\n")
		})
		d := http2.NewDecoder(4096)
		var b http2.HeaderBlock
		for _, block := range [][]byte{first, second} {
			want.Reset()
			_, err := reference.Write(block)
			if closeErr := reference.Close(); err == nil {
				err = closeErr
			}
			got := d.Decode(block, wideLimits(), &b)
			if got != nil && strings.Contains(got.What, "size update after") {
				return // the reference allows it while the table is empty
			}
			if (got == nil) != (err == nil) {
				t.Fatalf("%x: got %v, want %v", block, got, err)
			}
			if err != nil {
				return
			}
			if n := strings.Count(want.String(), "="); n > 0 && len(b.Fields) == 0 && b.CheckTrailers() == "" {
				t.Fatalf("%x: no field, want %q", block, want.String())
			}
		}
	})
}

// Integers that would not fit into 32 bits, entries behind the last one, and a large name that each
// literal repeats.
func TestDecoderRejectsInvalidOrExpensiveBlocks(t *testing.T) {
	large := append([]byte{0x40, 0x7f, 0xa1, 0x1e}, bytes.Repeat([]byte("n"), 4000)...)
	large = append(large, 1, 'v')
	repeated := append(bytes.Clone(large), bytes.Repeat([]byte{0x0f, 47, 0}, 1000)...)
	for _, test := range []struct {
		block []byte
		want  http2.ErrorCode
	}{
		{[]byte("\x00\x7f\x80\x80\x80\x80\x08a"), http2.CompressionError},
		{[]byte("\x3f\x80\x80\x80\x80\x08"), http2.CompressionError},
		{[]byte("\x3f\xff\xff\xff\xff\x7f\x82"), http2.CompressionError},
		{[]byte("\xbe"), http2.CompressionError},
		{[]byte("\x7e\x01c"), http2.CompressionError},
		{repeated, http2.EnhanceYourCalm},
	} {
		d := http2.NewDecoder(4096)
		var b http2.HeaderBlock
		err := d.Decode(test.block, http1.Limits{Bytes: 16 << 10, Fields: 100}, &b)
		testkit.Equal(t, codeOf(err), test.want, test.block[:min(len(test.block), 20)])
	}
}

// A browser's first block, and an entry of the dynamic table each time.
func TestDecoderDoesNotAllocate(t *testing.T) {
	d := http2.NewDecoder(4096)
	var b http2.HeaderBlock
	block := append(blockOf(":method: GET\n:scheme: https\n:authority: example.com\n:path: /users/1?full=true\n"+
		"accept: text/html,application/xhtml+xml\naccept-language: en-US,en;q=0.5\n"+
		"accept-encoding: gzip, deflate, br, zstd\nuser-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0)\n"+
		"cookie: session=0123456789abcdef0123456789abcdef"), "\x40\x03x-a\x05value"...)
	var n int
	testkit.Equal(t, testing.AllocsPerRun(1000, func() {
		n++
		block[len(block)-1] = 'a' + byte(n%26)
		mustDecode(t, &d, block, wideLimits(), &b)
	}), 0, "allocations")
}
