package printable

import "testing"

func TestForeignTextIsPrintable(t *testing.T) {
	const text = "é\t\x1b[2J\r\n\u202e\xff"
	if got := Text(text, ""); got != `é\t\x1b[2J\r\n\u202e\xff` {
		t.Errorf("%q", got)
	}
	if got := Text(text, "\n\t"); got != "é\t"+`\x1b[2J\r`+"\n"+`\u202e\xff` {
		t.Errorf("%q", got)
	}
}
