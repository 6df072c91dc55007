package replace

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// slowly replaces strings by their definition: at each place the first one that matches. A possible
// beginning of one at the end of the text stays, with everything that follows.
func slowly(text string, from, to []string, once bool) string {
	var out strings.Builder
	done := make([]bool, len(from))
	folded := fold(text)
next:
	for at := 0; at < len(text); {
		for i, s := range from {
			if done[i] {
				continue
			}
			rest := folded[at:]
			if strings.HasPrefix(rest, fold(s)) {
				out.WriteString(to[i])
				at += len(s)
				done[i] = once
				continue next
			}
			if strings.HasPrefix(fold(s), rest) {
				out.WriteString(text[at:])
				return out.String()
			}
		}
		out.WriteByte(text[at])
		at++
	}
	return out.String()
}

// fold lowers ASCII letters.
func fold(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// replaced returns the output of a replacer for a text in pieces.
func replaced(t testing.TB, from, to []string, once bool, pieces ...string) string {
	t.Helper()
	var out bytes.Buffer
	var with [][]byte
	for _, s := range to {
		with = append(with, []byte(s))
	}
	r := NewWriter(NewMatcher(from), with, once, &out)
	for _, p := range pieces {
		given := []byte(p)
		testkit.Equal(t, testkit.Value(r.Write(given))(t), len(p))
		if string(given) != p {
			t.Fatal("a piece was changed")
		}
		for i := range given {
			given[i] = 'x' // the replacer must not use it any more
		}
		if len(r.carry) >= r.matcher.longest {
			t.Fatalf("%d bytes are kept for strings of up to %d", len(r.carry), r.matcher.longest)
		}
	}
	testkit.Must(t, r.Close())
	return out.String()
}

// checkReplacer compares the output for a text as a whole, byte by byte, and in pieces.
func checkReplacer(t testing.TB, text string, from, to []string, once bool, seed uint64) {
	t.Helper()
	want := slowly(text, from, to, once)
	ways := map[string][]string{"whole": {text}}
	for i := range len(text) {
		ways["byte by byte"] = append(ways["byte by byte"], text[i:i+1])
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for rest := text; rest != ""; {
		n := min(random.IntN(9), len(rest))
		ways["in pieces"] = append(ways["in pieces"], rest[:n])
		rest = rest[n:]
	}
	if text == "" {
		return
	}
	for name, pieces := range ways {
		testkit.Equal(t, replaced(t, from, to, once, pieces...), want, from, "by", to, "in", text, "once", once, name)
	}
}

// Texts of few letters, in which almost everything matches.
func TestReplacerMatchesRandomTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(most int) string {
		b := make([]byte, random.IntN(most)+1)
		for i := range b {
			b[i] = "aAbc"[random.IntN(4)]
		}
		return string(b)
	}
	for seed := range uint64(3000) {
		var from, to []string
		for range random.IntN(4) + 1 {
			from, to = append(from, word(5)), append(to, word(3))
		}
		checkReplacer(t, word(40), from, to, seed%2 == 0, seed)
	}
}

func FuzzReplacer(f *testing.F) {
	f.Add("abcd ab abc xbcd ABCD", "abcd", "ab", "1", "2", false, uint64(1))
	f.Add("aaaaaaab", "aab", "aaab", "", "xx", true, uint64(2))
	f.Add("<html><HEAD></Head>", "<head>", "</head>", "<head><base>", "</head>", true, uint64(3))
	f.Add("\x00\xff\x00\xff\x01", "\xff\x00", "\xff\x01", "\x00", "", false, uint64(4))
	f.Add("ÄäÖ[\\]^_`{}@", "ä", "`", "x", "[", false, uint64(5))
	f.Add(strings.Repeat("n", 300)+"A", strings.Repeat("n", 299)+"a", "nA", "x", "", false, uint64(6))
	f.Fuzz(func(t *testing.T, text, a, b, x, y string, once bool, seed uint64) {
		if a == "" || b == "" || len(text) > 1<<12 {
			return
		}
		checkReplacer(t, text, []string{a, b}, []string{x, y}, once, seed)
	})
}
