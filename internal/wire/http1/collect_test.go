package http1

import (
	"fmt"
	"testing"
)

func TestCollectorGroupsValues(t *testing.T) {
	for _, room := range []int{0, 2, 4, 9} {
		c := Collect(nil, 3, make([]string, 0, room))
		c.Add(NameUnknown, "X-A", "1")
		c.Add(NameContentType, "Content-Type", "2")
		c.Add(NameUnknown, "X-A", "3")
		c.Add(NameContentType, "Content-Type", "4")
		c.Add(NameUnknown, "X-B", "5")
		c.Add(NameUnknown, "X-C", "6") // one more than expected
		c.Fields["X-B"] = append(c.Fields["X-B"], "7")
		if got := fmt.Sprint(c.Fields); got != "map[Content-Type:[2 4] X-A:[1 3] X-B:[5 7] X-C:[6]]" {
			t.Errorf("with room for %d: %s", room, got)
		}
	}
	if c := Collect(nil, -1, nil); len(c.Fields) != 0 || c.Fields == nil {
		t.Errorf("of nothing: %v", c.Fields)
	}
}
