package http1

import (
	"math/rand/v2"
	"net/textproto"
	"strings"
	"testing"
)

func TestNamesAreCanonical(t *testing.T) {
	for n, name := range names {
		if canonical := textproto.CanonicalMIMEHeaderKey(name); canonical != name {
			t.Errorf("%q is spelled %q", name, canonical)
		}
		if n == 0 {
			continue
		}
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if got := LookupName([]byte(spelling)); got != Name(n) {
				t.Errorf("LookupName(%q) = %q", spelling, got)
			}
		}
		variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if got := LookupVariable([]byte(variable)); got != Name(n) || len(name) > maxName {
			t.Errorf("LookupVariable(%q) = %q", variable, got)
		}
		if got := LookupName([]byte("x" + name[1:])); got != NameUnknown &&
			!strings.EqualFold(got.String(), "x"+name[1:]) {
			t.Errorf("x%s looked up as %q", name[1:], got)
		}
	}
	for _, other := range []string{"", "x", "Hosts", "Hos\x14", "Content_Length", "content-lengthy"} {
		if got := LookupName([]byte(other)); got != NameUnknown {
			t.Errorf("LookupName(%q) = %q", other, got)
		}
	}
	for _, other := range []string{"", "X", "_", "HOSTS", "CONTENT__LENGTH", strings.Repeat("X", maxName),
		strings.Repeat("X", maxName+1), strings.Repeat("_", 1000)} {
		if got := LookupVariable([]byte(other)); got != NameUnknown {
			t.Errorf("LookupVariable(%q) = %q", other, got)
		}
	}
}

func TestNamesDoNotCollide(t *testing.T) {
	if collision := collides(lengthScale, firstScale, middleScale, secondScale); collision == "" {
		return
	} else {
		t.Errorf("%s collides with an earlier name", collision)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 1_000_000 {
		a, b, c, d := 1+rnd.IntN(255), 1+rnd.IntN(255), 1+rnd.IntN(255), 1+rnd.IntN(255)
		if collides(a, b, c, d) == "" {
			t.Logf("these factors separate all names: %d %d %d %d", a, b, c, d)
			return
		}
	}
	t.Log("no factors found: enlarge nameSlots")
}

func collides(length, first, middle, second int) string {
	var used [nameSlots]bool
	for _, s := range names[1:] {
		slot := slotBy([]byte(s), length, first, middle, second)
		if used[slot] {
			return s
		}
		used[slot] = true
	}
	return ""
}
