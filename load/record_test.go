package load

import "strings"

// Record encodes a FastCGI record by hand, because the reader would share the defects of tare's
// writer.
func Record(typ byte, id uint16, content string, padding int) string {
	n := len(content)
	header := []byte{1, typ, byte(id >> 8), byte(id), byte(n >> 8), byte(n), byte(padding), 0xee}
	return string(header) + content + strings.Repeat("\xff", padding)
}

// Stdout returns a STDOUT record.
func Stdout(content string) string { return Record(6, 1, content, 0) }

// Stderr returns a STDERR record.
func Stderr(content string) string { return Record(7, 1, content, 0) }

// End returns an END_REQUEST record with an application status and a protocol status.
func End(app, status byte) string {
	return Record(3, 1, string([]byte{0, 0, 0, app, status, 0, 0, 0}), 0)
}
