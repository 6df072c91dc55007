package byterange

import (
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestParsedRanges(t *testing.T) {
	for _, test := range []struct {
		value string
		size  int64
		want  []Range
		fails bool
	}{
		{"bytes=0-", 10, []Range{{0, 10}}, false}, {"bytes=0-0", 10, []Range{{0, 1}}, false},
		{"bytes=3-99", 10, []Range{{3, 7}}, false},
		{"bytes=-3", 10, []Range{{7, 3}}, false}, {"bytes=-30", 10, []Range{{0, 10}}, false},
		{"Bytes=1-2", 10, []Range{{1, 2}}, false}, {"bytes = 1-2", 10, nil, false},
		{"bytes=8-9,0-1", 10, []Range{{8, 2}, {0, 2}}, false}, {"bytes=5-9,0-5", 10, nil, false},
		{"bytes=0-1,50-60", 10, []Range{{0, 2}}, false}, {"bytes=0-1,5-4,-0", 10, []Range{{0, 2}}, false},
		{"bytes=,0-1,,", 10, []Range{{0, 2}}, false},
		{"bytes=10-", 10, nil, true}, {"bytes=-0", 10, nil, true}, {"bytes=5-4", 10, nil, true},
		{"bytes=", 10, nil, false}, {"bytes=,", 10, nil, false}, {"bytes=a-b", 10, nil, true}, {"bytes=-", 10, nil, true},
		{"bytes=+0-1", 10, nil, true}, {"bytes=5-3,0-1", 10, []Range{{0, 2}}, false},
		{"bytes=x-3", 10, nil, true}, {"bytes=1--2", 10, nil, true}, {"bytes=0x1-2", 10, nil, true},
		{"bytes=1", 10, nil, true},
		{"bytes=99999999999999999999-", 10, nil, true}, {"bytes=0-99999999999999999999", 10, nil, true},
		{"bytes=0-0", 0, nil, false}, {"bytes=-5", 0, nil, false}, {"lines=0-0", 10, nil, false},
		{"nonsense", 10, nil, false}, {"", 10, nil, false},
	} {
		got, err := Parse(test.value, test.size, Max)
		testkit.Equal(t, got, test.want, test.value, "of", test.size)
		testkit.Equal(t, err != nil, test.fails, test.value, "of", test.size, err)
	}
}

func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-", "bytes=-5", "bytes=0-1,3-4,2-3", "bytes=5-2", "bytes=99999999999999999999-",
		"lines=1-2", "bytes=,,1-2 , -", "bytes = 1 - 2"} {
		f.Add(s, int64(10))
	}
	f.Fuzz(func(t *testing.T, value string, size int64) {
		size = max(size, 0)
		ranges, err := Parse(value, size, Max)
		if err != nil && ranges != nil {
			t.Fatalf("an error with %v", ranges)
		}
		if len(ranges) > Max {
			t.Fatalf("%d ranges", len(ranges))
		}
		total := int64(0)
		for _, r := range ranges {
			if r.From < 0 || r.Length <= 0 || r.End() > size || r.End() < r.From {
				t.Fatalf("%v of %d", r, size)
			}
			if total += r.Length; total > size {
				t.Fatalf("%v: total length is greater than %d", ranges, size)
			}
		}
	})
}

func FuzzETags(f *testing.F) {
	for _, s := range []string{`"a"`, `W/"a", "b"`, "*", `"`, `,,"x"`, `"a" "x"`, "W/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		if listed(list, `"x"`, true) && list != "" && !strings.Contains(list, `"x"`) &&
			strings.Trim(list, " \t") != "*" {
			t.Fatalf("%q", list)
		}
		if listed(list, `"x"`, false) && !listed(list, `"x"`, true) {
			t.Fatalf("%q: strong match without weak match", list)
		}
	})
}
