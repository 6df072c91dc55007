package nginxconf

import (
	"testing"

	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// A scope finds each directive of its block and of those around, also if names share a mark, and no
// others.
func TestScopeFindsDirectivesOfAllBlocks(t *testing.T) {
	block := func(names ...string) (all []*syntax.Directive) {
		for i, name := range names {
			all = append(all, &syntax.Directive{Name: name, Number: i})
		}
		return all
	}
	outer := newScope(nil, levelHTTP, block("a", "b", "a", "c", "a", "b"))
	inner := newScope(outer, levelServer, block("c", "d", "d", "c"))
	for name, want := range map[string]int{"a": 3, "b": 2, "c": 2, "d": 2, "e": 0, "": 0} {
		all := inner.all(name)
		if len(all) != want {
			t.Errorf("%q: %d directives, want %d", name, len(all), want)
		}
		for i, d := range all {
			if d.Name != name || i > 0 && all[i-1].Number >= d.Number {
				t.Errorf("%q: directive %d is %q with the number %d", name, i, d.Name, d.Number)
			}
		}
		if last := inner.one(name); want > 0 && last != all[want-1] || want == 0 && last != nil {
			t.Errorf("%q: one is not the last", name)
		}
	}
	if outer.own("d") != nil || inner.own("a") != nil || len(inner.own("c")) != 2 || len(outer.own("c")) != 1 {
		t.Error("a block has the directives of another")
	}
	if inner.holder("e", "b") != outer || inner.holder("a", "d") != inner || inner.holder("e") != nil {
		t.Error("the holder is another block")
	}
	if all := inner.all("a", "b"); len(all) != 5 || all[4] != outer.list[5] {
		t.Errorf("of two names: %d directives", len(all))
	}
}

// Names of the table are spread over marks, so that few are searched for in vain.
func TestMarksDifferBetweenNames(t *testing.T) {
	count := make(map[byte]int)
	table := syntax.ParseTable(tableText)
	for name := range table.ByName {
		count[nameMark(name)]++
	}
	for mark, n := range count {
		if n > 12*(len(table.ByName)/256+1) {
			t.Errorf("%d names have the mark %d", n, mark)
		}
	}
	if len(count) < 100 {
		t.Errorf("%d names have %d marks", len(table.ByName), len(count))
	}
}
