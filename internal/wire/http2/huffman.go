package http2

import "encoding/binary"

// The Huffman code of RFC 7541, appendix B, is canonical: among the codes of one length, and from
// each length to the next, codes grow with the symbols. The lengths therefore determine the code.
const (
	symbols      = 256
	fastBits     = 8 // of the codes that one lookup finds: all of letters and digits
	longestCode  = 30
	wordBits     = 64
	mostPadding  = 7
	lengthBits   = 4 // of an entry of huffman.fast
	lengthInFast = 1<<lengthBits - 1
)

// codeLengths holds the length of each symbol's code. It is never modified.
var codeLengths = [symbols]uint8{
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
	28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6,
	6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6,
	6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22,
	20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23,
	22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22,
	23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
	19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22,
	25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
}

// huffman is the code in the form in which it is decoded. Codes are left-aligned in 32 bits.
type huffman struct {
	fast   [1 << fastBits]uint16 // symbol and length of the code that an octet begins with; 0 if longer
	sorted [symbols]uint8        // the symbols in the order of their codes
	limit  [longestCode + 1]uint32
	// offset plus the number of a code is its index in sorted, by length
	offset [longestCode + 1]int32
}

// huffmanCode is never modified.
var huffmanCode = makeHuffman()

func makeHuffman() *huffman {
	h := new(huffman)
	code, index := uint64(0), 0 // code is left-aligned in 32 bits
	for length := 1; length <= longestCode; length++ {
		shift := 32 - length
		h.offset[length] = int32(index) - int32(code>>shift)
		for symbol, n := range codeLengths {
			if int(n) != length {
				continue
			}
			h.sorted[index] = uint8(symbol)
			index++
			if length <= fastBits {
				first := code >> (32 - fastBits)
				for i := range uint64(1) << (fastBits - length) {
					h.fast[first+i] = uint16(symbol)<<lengthBits | uint16(length)
				}
			}
			code += 1 << shift
		}
		h.limit[length] = uint32(code)
	}
	return h
}

// appendDecoded appends the string that src encodes. ok is false if src is not a valid encoding.
//
// The next bits of src are the first ones of a word. Most symbols have short codes, which one
// lookup finds, so that the word is refilled after several symbols.
func (h *huffman) appendDecoded(dst, src []byte) (out []byte, ok bool) {
	var bits uint64
	n := 0 // valid bits; what follows them is zero or the next bits of src
	for {
		if len(src) >= wordBits/8 {
			bits |= binary.BigEndian.Uint64(src) >> n
			taken := (wordBits - n) / 8
			src, n = src[taken:], n+8*taken
		}
		for n <= wordBits-8 && len(src) > 0 && len(src) < wordBits/8 {
			bits |= uint64(src[0]) << (wordBits - 8 - n)
			src, n = src[1:], n+8
		}
		for n >= fastBits {
			entry := h.fast[bits>>(wordBits-fastBits)]
			if entry == 0 {
				break
			}
			dst = append(dst, uint8(entry>>lengthBits))
			bits <<= entry & lengthInFast
			n -= int(entry & lengthInFast)
		}
		if n < longestCode && len(src) > 0 {
			continue
		}
		symbol, length := h.first(bits)
		if length > n {
			break
		}
		dst = append(dst, symbol)
		bits <<= length
		n -= length
	}
	// What remains must be the first bits of the end symbol, which are ones.
	return dst, n <= mostPadding && bits == ^uint64(0)<<(wordBits-n)
}

// first returns the symbol whose code bits begins with. The codes of each length are smaller than
// all longer ones. For the end symbol, which may occur only as padding, length is larger than any.
func (h *huffman) first(bits uint64) (symbol uint8, length int) {
	if entry := h.fast[bits>>(wordBits-fastBits)]; entry != 0 {
		return uint8(entry >> lengthBits), int(entry & lengthInFast)
	}
	code := uint32(bits >> 32)
	for length = fastBits + 1; length <= longestCode; length++ {
		if code < h.limit[length] {
			return h.sorted[int32(code>>(32-length))+h.offset[length]], length
		}
	}
	return 0, wordBits + 1
}
