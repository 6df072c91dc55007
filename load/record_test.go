package load

import "strings"

// Record makes a FastCGI record by hand: our reader would share the faults of our writer.
func Record(typ byte, id uint16, content string, padding int) string {
	n := len(content)
	header := []byte{1, typ, byte(id >> 8), byte(id), byte(n >> 8), byte(n), byte(padding), 0xee}
	return string(header) + content + strings.Repeat("\xff", padding)
}

// The records that an application sends.
func Stdout(content string) string { return Record(6, 1, content, 0) }
func Stderr(content string) string { return Record(7, 1, content, 0) }

// End is an END_REQUEST with an application status and a protocol status.
func End(app, status byte) string {
	return Record(3, 1, string([]byte{0, 0, 0, app, status, 0, 0, 0}), 0)
}
