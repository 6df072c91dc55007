package load

import (
	"fmt"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Lines of events may end with CR, LF or both. A block without an end, or with comments only, is no
// event.
func TestEventStreamCountsBlocks(t *testing.T) {
	for in, want := range map[string]string{
		"": "0", "\n\n\n": "0", ": ping\n\n": "0", "data: a\n": "0", "data: a": "0",
		"data: a\n\n": "1", "data: a\r\n\r\n": "1", "data: a\r\r": "1", "data: a\n\r": "1", "data: a\r\n\n": "1",
		"data: a\n\n\n\n": "1", "\n: c\ndata: a\nid: 1\n\n": "1", "data: a\n\n: c\n\ndata\n\ndata: b\n": "2",
	} {
		got := testkit.EverySplit(t, []byte(in), func(pieces [][]byte) string {
			counts := newTally()
			counts.counting = true
			s := eventStream{tally: &counts}
			for _, piece := range pieces {
				s.data(piece)
			}
			return fmt.Sprint(counts.events)
		})
		if got != want {
			t.Errorf("%q: %s events, want %s", in, got, want)
		}
	}
}
