package lru_test

import (
	"fmt"
	"testing"

	"github.com/tarehq/tare/front/internal/lru"
)

// The value that was used least recently is dropped, and no other.
func TestLeastRecentlyUsedIsDropped(t *testing.T) {
	m := lru.New[string, int](2)
	var got []string
	for i, step := range []string{"+a", "+b", "a", "+c", "b", "a", "c", "+d", "a", "d"} {
		if key := step[len(step)-1:]; step[0] == '+' {
			value, ok := m.Add(key, i)
			got = append(got, fmt.Sprint(step, value, ok))
		} else {
			value, ok := m.Get(key)
			got = append(got, fmt.Sprint(step, value, ok))
		}
	}
	const want = "[+a0 false +b0 false a0 true +c1 true b0 false a0 true c3 true +d0 true a0 false d7 true]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
	if all := m.Clear(); fmt.Sprint(all) != "[7 3]" || len(m.Clear()) != 0 {
		t.Errorf("%v", all)
	}
	if _, ok := m.Get("d"); ok {
		t.Error("a value is left")
	}
}
