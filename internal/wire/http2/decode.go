package http2

import "github.com/tarehq/tare/internal/wire/http1"

// Decoder decodes the field blocks of one direction of a connection (RFC 7541). It is not safe for
// concurrent use.
type Decoder struct {
	table   dynamicTable
	maxSize int // SETTINGS_HEADER_TABLE_SIZE that the peer has acknowledged
}

// NewDecoder returns a Decoder whose dynamic table is at most tableSize large: the value of
// SETTINGS_HEADER_TABLE_SIZE that the peer receives.
func NewDecoder(tableSize int) Decoder {
	d := Decoder{maxSize: tableSize}
	d.table.maxSize = min(tableSize, DefaultTableSize)
	return d
}

// The first bits of a representation (RFC 7541, 6), and how many bits of its first octet hold an
// integer.
const (
	indexedBit    = 0x80
	indexedPrefix = 7
	insertBit     = 0x40
	insertPrefix  = 6
	updateBit     = 0x20
	updatePrefix  = 5
	literalPrefix = 4
	huffmanBit    = 0x80
	stringPrefix  = 7
)

// lastShift limits the integers of a block to four octets after the first: less than 2^29. None
// that is larger is ever valid, and an int of 32 bits cannot overflow.
const lastShift = 21

// leastCopied is what names of the dynamic table may add to a literal block in any case.
const leastCopied = 64 << 10

// Decode decodes a whole field block into b, which it resets before. An error ends the connection.
// limits.Line limits an encoded name or value, as in nginx; references to the table are not
// limited. A block over its limits, and a malformed one, is decoded to its end: see HeaderBlock.
func (d *Decoder) Decode(block []byte, limits http1.Limits, b *HeaderBlock) *Error {
	b.reset(limits)
	mayUpdate := true
	for len(block) > 0 {
		first := block[0]
		var err *Error
		switch {
		case first&indexedBit != 0:
			block, err = d.decodeIndexed(block, b)
		case first&insertBit != 0:
			block, err = d.decodeLiteral(block, insertPrefix, b)
		case first&updateBit == 0:
			block, err = d.decodeLiteral(block, literalPrefix, b)
		case !mayUpdate:
			return compressionError("dynamic table size update after a field")
		default:
			block, err = d.updateSize(block)
			if err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		mayUpdate = false
	}
	return nil
}

func compressionError(what string) *Error { return ConnError(CompressionError, what) }

func (d *Decoder) updateSize(block []byte) (rest []byte, err *Error) {
	n, rest, err := integer(block, updatePrefix)
	if err != nil {
		return nil, err
	}
	if n > d.maxSize {
		return nil, compressionError("dynamic table larger than SETTINGS_HEADER_TABLE_SIZE")
	}
	d.table.setMaxSize(n)
	return rest, nil
}

func (d *Decoder) decodeIndexed(block []byte, b *HeaderBlock) (rest []byte, err *Error) {
	index, rest, err := integer(block, indexedPrefix)
	if err != nil {
		return nil, err
	}
	if index -= 1; index >= 0 && index < len(staticTable) {
		f := &staticTable[index]
		if b.add(staticNames[index], true, len(f.name), len(f.value)) {
			addText(b, staticNames[index], f.name, f.value)
		}
		return rest, nil
	}
	if index -= len(staticTable); index < 0 || index >= d.table.count {
		return nil, compressionError("index of no field")
	}
	e := d.table.at(index)
	if b.add(e.info, e.isValue, int(e.nameSize), int(e.valueSize)) {
		addText(b, e.info, d.table.name(e), d.table.value(e))
	}
	return rest, nil
}

// decodeLiteral decodes a literal field. One of prefix insertPrefix is inserted into the table.
func (d *Decoder) decodeLiteral(block []byte, prefix int, b *HeaderBlock) (rest []byte, err *Error) {
	index, rest, err := integer(block, prefix)
	if err != nil {
		return nil, err
	}
	b.scratch = b.scratch[:0]
	var info nameInfo
	switch index -= 1; {
	case index < 0:
		if rest, err = b.appendString(rest); err != nil {
			return nil, err
		}
		info = infoOf(b.scratch)
	case index < len(staticTable):
		b.scratch = append(b.scratch, staticTable[index].name...)
		info = staticNames[index]
	case index-len(staticTable) < d.table.count:
		e := d.table.at(index - len(staticTable))
		// A reference of two octets copies a name of up to the table's size.
		if b.copied += int(e.nameSize); b.copied > max(b.limits.Bytes, leastCopied) {
			return nil, ConnError(EnhanceYourCalm, "field block repeats large names")
		}
		b.scratch = append(b.scratch, d.table.name(e)...)
		info = e.info
	default:
		return nil, compressionError("index of no field")
	}
	nameSize := len(b.scratch)
	if rest, err = b.appendString(rest); err != nil {
		return nil, err
	}
	name, value := b.scratch[:nameSize], b.scratch[nameSize:]
	valid := http1.ValueSpan(value) == len(value)
	if prefix == insertPrefix {
		d.table.insert(name, value, info, valid)
	}
	if b.add(info, valid, len(name), len(value)) {
		addText(b, info, name, value)
	}
	return rest, nil
}

// integer decodes an integer whose first octet has prefix bits (RFC 7541, 5.1).
func integer(b []byte, prefix int) (n int, rest []byte, err *Error) {
	if len(b) == 0 {
		return 0, nil, compressionError("incomplete field block")
	}
	largest := 1<<prefix - 1
	if n = int(b[0]) & largest; n < largest {
		return n, b[1:], nil
	}
	for shift, i := 0, 1; i < len(b); shift, i = shift+7, i+1 {
		if shift > lastShift {
			return 0, nil, compressionError("integer too large")
		}
		n += int(b[i]&0x7f) << shift
		if b[i]&0x80 == 0 {
			return n, b[i+1:], nil
		}
	}
	return 0, nil, compressionError("incomplete field block")
}

// appendString appends a decoded string literal to the scratch (RFC 7541, 5.2).
func (b *HeaderBlock) appendString(in []byte) (rest []byte, err *Error) {
	n, rest, err := integer(in, stringPrefix)
	if err != nil {
		return nil, err
	}
	if n > len(rest) {
		return nil, compressionError("incomplete field block")
	}
	if b.limits.Line > 0 && n > b.limits.Line {
		b.IsTooLarge = true
	}
	text, rest := rest[:n], rest[n:]
	if in[0]&huffmanBit == 0 {
		b.scratch = append(b.scratch, text...)
		return rest, nil
	}
	ok := false
	if b.scratch, ok = huffmanCode.appendDecoded(b.scratch, text); !ok {
		return nil, compressionError("invalid Huffman code")
	}
	return rest, nil
}
