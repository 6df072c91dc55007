package http2

// AppendHuffmanDecoded decodes a string by itself.
func AppendHuffmanDecoded(dst, src []byte) ([]byte, bool) { return huffmanCode.appendDecoded(dst, src) }
