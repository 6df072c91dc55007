package cache

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/tarehq/tare/front/internal/message"
)

// A file is a prelude, a description of the response with room to grow, and the body. The prelude
// is written last, and a file is renamed once it is complete. An unfinished file is either not
// found, or its checksums are wrong.
//
//	magic       8 bytes
//	room        4, bytes of the description and the free space after it
//	length      4, of the description
//	checksum    4, of the description
//	checksum    4, of the body
//	body        8, its length
//	checksum    4, of the prelude up to here
//
// Numbers are little-endian, checksums are CRC-32C.
const (
	magic       = "tarcach1"
	preludeSize = 36
	maxRoom     = 1 << 20 // bytes of a description
	roomToGrow  = 256     // for a header that a 304 changes
)

var errTorn = errors.New("cache: incomplete file, or not a cache file")

type prelude struct {
	room, length     uint32
	headSum, bodySum uint32
	body             int64
}

func (p *prelude) bodyAt() int64 { return preludeSize + int64(p.room) }

func checksum(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
}

// encodeHead encodes the prelude and the description of a response. It keeps the prelude's room, or
// sets it if it is zero.
func encodeHead(p prelude, s *stored) ([]byte, prelude) {
	b := appendStored(make([]byte, preludeSize), s)
	head := b[preludeSize:]
	p.length, p.headSum = uint32(len(head)), checksum(0, head)
	if p.room == 0 {
		p.room = p.length + roomToGrow
	}
	fixed := append(b[:0], magic...)
	fixed = binary.LittleEndian.AppendUint32(fixed, p.room)
	fixed = binary.LittleEndian.AppendUint32(fixed, p.length)
	fixed = binary.LittleEndian.AppendUint32(fixed, p.headSum)
	fixed = binary.LittleEndian.AppendUint32(fixed, p.bodySum)
	fixed = binary.LittleEndian.AppendUint64(fixed, uint64(p.body))
	binary.LittleEndian.AppendUint32(fixed, checksum(0, fixed))
	return b, p
}

func parsePrelude(b []byte) (p prelude, err error) {
	if len(b) < preludeSize || string(b[:len(magic)]) != magic ||
		checksum(0, b[:preludeSize-4]) != binary.LittleEndian.Uint32(b[preludeSize-4:]) {
		return p, errTorn
	}
	b = b[len(magic):]
	p.room, p.length = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	p.headSum, p.bodySum = binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	p.body = int64(binary.LittleEndian.Uint64(b[16:]))
	if p.room > maxRoom || p.length > p.room || p.body < 0 {
		return p, errTorn
	}
	return p, nil
}

// appendStored appends the description of a stored response: numbers are varints, texts are
// preceded by their length.
func appendStored(b []byte, s *stored) []byte {
	b = appendText(b, s.key)
	b = binary.AppendUvarint(b, uint64(len(s.choices)))
	for _, c := range s.choices {
		b = appendText(appendText(b, c.name), c.value)
	}
	b = binary.AppendUvarint(b, uint64(s.status))
	names := slices.Sorted(maps.Keys(s.header))
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = binary.AppendUvarint(appendText(b, name), uint64(len(s.header[name])))
		for _, v := range s.header[name] {
			b = appendText(b, v)
		}
	}
	l := &s.life
	for _, n := range [...]int64{
		l.received.UnixNano(), int64(l.age), l.fresh.UnixNano(), int64(l.revalidating), int64(l.failing),
		bit(l.strict),
	} {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// decoder reads a description. After an error it reads nothing more. No allocation is larger than
// the rest of the input.
type decoder struct {
	rest string
	bad  bool
}

// parseStored reads a response's description, up to the end.
func parseStored(b []byte) (*stored, error) {
	d := &decoder{rest: string(b)}
	s := &stored{key: d.text()}
	for n := d.count(2); n > 0; n-- {
		s.choices = append(s.choices, choice{d.text(), d.text()})
	}
	s.status = int(d.uint(599))
	fields := d.count(2)
	s.header = make(http.Header, fields)
	for ; fields > 0; fields-- {
		name := d.text()
		values := make([]string, d.count(1))
		for i := range values {
			values[i] = d.text()
		}
		s.header[name] = values
	}
	s.life = lifetime{
		received: time.Unix(0, d.int()), age: time.Duration(d.int()), fresh: time.Unix(0, d.int()),
		revalidating: time.Duration(d.int()), failing: time.Duration(d.int()), strict: d.int() != 0,
	}
	if d.bad || d.rest != "" || s.status < 200 || len(s.choices) > maxVary {
		return nil, errTorn
	}
	s.head = message.NewHead(s.header)
	return s, nil
}

func (d *decoder) fail() {
	d.bad, d.rest = true, ""
}

func (d *decoder) uint(most uint64) uint64 {
	var buf [binary.MaxVarintLen64]byte
	n, size := binary.Uvarint(buf[:copy(buf[:], d.rest)])
	if size <= 0 || n > most {
		d.fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// int reads what binary.AppendVarint wrote: the lowest bit is the sign.
func (d *decoder) int() int64 {
	u := d.uint(math.MaxUint64)
	return int64(u>>1) ^ -int64(u&1)
}

// count reads a number of items, each of which needs at least the given number of bytes.
func (d *decoder) count(each int) int { return int(d.uint(uint64(len(d.rest) / each))) }

func (d *decoder) text() string {
	n := d.uint(uint64(len(d.rest)))
	if n > uint64(len(d.rest)) {
		d.fail()
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}
