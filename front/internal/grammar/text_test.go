package grammar

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

func TestTextIsSplitIntoPieces(t *testing.T) {
	for text, want := range map[conf.Text][]Piece{
		"":         {},
		"plain":    {{Source: "plain"}},
		"$uri":     {{Source: "$uri", Variable: "uri"}},
		"a${Uri}b": {{Source: "a"}, {Source: "${Uri}", Variable: "uri"}, {Source: "b"}},
		"$1$12":    {{Source: "$1", Group: 1}, {Source: "$1", Group: 1}, {Source: "2"}},
		"${1}":     {{Source: "${1}", Variable: "1"}},
		"$0":       {{Source: "$0", Variable: "0"}},
		"$a_b-$c":  {{Source: "$a_b", Variable: "a_b"}, {Source: "-"}, {Source: "$c", Variable: "c"}},
		"}{$a}":    {{Source: "}{"}, {Source: "$a", Variable: "a"}, {Source: "}"}},
	} {
		got, err := Pieces(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %+v %v, want %+v", text, got, err, want)
		}
		testkit.Equal(t, HasVariables(text), strings.Contains(string(text), "$"), "HasVariables of", text)
	}
	for text, want := range map[conf.Text]string{
		"$": "missing variable name", "a$": "missing variable name", "$-": "missing variable name",
		"$$a": "missing variable name", "${": "missing", "${}": "missing variable name", "${a": "missing \"}\"",
		"${a-b}": "missing \"}\"", "a$é": "missing variable name",
	} {
		testkit.Fails(Pieces(text))(t, want, text)
	}
}

// The pieces of a text, put together, are the text.
func FuzzPieces(f *testing.F) {
	for _, text := range []string{"", "$", "a${b}c$1", "${", "$a$b", "\xff$"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pieces, err := Pieces(conf.Text(text))
		if err != nil {
			return
		}
		var b strings.Builder
		for _, p := range pieces {
			if p.Source == "" || !p.IsLiteral() && p.Source[0] != '$' ||
				p.Variable != "" && !IsVariableName(p.Variable) {
				t.Errorf("%q: piece %+v", text, p)
			}
			b.WriteString(p.Source)
		}
		testkit.Equal(t, b.String(), text, pieces)
	})
}

// parses fails unless a function parses the valid texts to their values, and none of the others.
func parses[T comparable](t *testing.T, parse func(string) (T, error), valid map[string]T, invalid ...string) {
	t.Helper()
	for text, want := range valid {
		testkit.Equal(t, testkit.Value(parse(text))(t), want, text)
	}
	for _, text := range invalid {
		testkit.Fails(parse(text))(t, "", text)
	}
}

func TestTimesAreParsed(t *testing.T) {
	parses(t, ParseTime, map[string]time.Duration{
		"0": 0, "30": 30 * time.Second, "30s": 30 * time.Second, "500ms": 500 * time.Millisecond, "1m": time.Minute,
		"1h": time.Hour, "1d": Day, "1w": 7 * Day,
		"1h30m": 90 * time.Minute, "1h 30m": 90 * time.Minute, "1h30": time.Hour + 30*time.Second,
		"1w2d3h4m5s6ms": 9*Day + 3*time.Hour + 4*time.Minute + 5*time.Second + 6*time.Millisecond,
	}, "", " ", "h", "1x", "-1", "+1", "1.5h", "1m1h", "1h1h", "1hm", "1s30", "1 1", "1y", "1M", "99999999999999999999",
		"9999999999999999w")
	parses(t, ParseSeconds, map[string]time.Duration{"1y": 365 * Day, "1M": 30 * Day, "1y1M1w": 402 * Day,
		"90": 90 * time.Second}, "", "1ms", "400y", "1m1M")
}

func TestSizesAreParsed(t *testing.T) {
	parses(t, ParseOffset, map[string]int64{"0": 0, "512": 512, "8k": 8 << 10, "8K": 8 << 10, "1m": 1 << 20, "1M": 1 << 20,
		"1g": 1 << 30, "1G": 1 << 30}, "", "k", "1t", "-1", "1.5k", "1kk", "9223372036854775808", "9007199254740992k")
	parses(t, ParseSize, nil, "1g")
}

func TestPercentagesAreParsed(t *testing.T) {
	parses(t, ParsePercent, map[string]int{"1%": 100, "0.5%": 50, "0.05%": 5, "100%": 100_00, "33.33%": 33_33},
		"", "%", "5", "0%", "1.%", ".5%", "1.555%", "-1%", "1.x%")
}

func TestNumbersAreParsed(t *testing.T) {
	parses(t, ParseNumber, map[string]int64{"0": 0, "007": 7, "9223372036854775807": 1<<63 - 1},
		"", "-1", "+1", "1.5", " 1", "1 ", "1_0", "0x1", "9223372036854775808")
}

func TestExpiriesAreParsed(t *testing.T) {
	always := func(text string) (Expiry, error) { return ParseExpiry(text, false) }
	parses(t, always, map[string]Expiry{
		"30d": {ExpiryIn, 30 * Day}, "+1h": {ExpiryIn, time.Hour}, "-1": {ExpiryIn, -time.Second},
		"@15h30m": {ExpiryAt, 15*time.Hour + 30*time.Minute}, "@24h": {ExpiryAt, Day}, "epoch": {Kind: ExpiryEpoch},
		"max": {Kind: ExpiryMax}, "off": {Kind: ExpiryOff},
	}, "", "@", "@25h", "@-1h", "@+1h", "--1", "+", "soon", "1ms")
	modified := func(text string) (Expiry, error) { return ParseExpiry(text, true) }
	parses(t, modified, nil, "@1h", "epoch", "max", "off")
}

func TestFlagsAreParsed(t *testing.T) {
	parses(t, ParseFlag, map[string]bool{"on": true, "ON": true, "off": false, "Off": false}, "", "yes", "1", "onn")
}
