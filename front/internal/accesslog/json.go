package accesslog

// AppendJSON appends the content of a JSON string, byte by byte as nginx does: invalid UTF-8 stays.
func AppendJSON(b []byte, s string) []byte {
	const hex, short = "0123456789ABCDEF", "btn?fr" // from \b on
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '"' || ch == '\\':
			b = append(b, '\\', ch)
		case ch >= ' ':
			b = append(b, ch)
		case ch >= '\b' && ch <= '\r' && ch != '\v':
			b = append(b, '\\', short[ch-'\b'])
		default:
			b = append(b, '\\', 'u', '0', '0', hex[ch>>4], hex[ch&15])
		}
	}
	return b
}
