package front

import (
	"fmt"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
)

// splitClientsModule makes variables of shares of clients: split_clients.
func splitClientsModule() module {
	return module{mapKinds: map[string]mapKind{"split_clients": percentages}}
}

// percentages compiles the cases to ranges of hashes.
func percentages(m *conf.Map, values []*text, defaultValue *text) (mapLookup, error) {
	const whole = 10000 // in hundredths of a percent
	var ends []uint64   // exclusive
	sum, last := 0, uint64(0)
	for _, k := range m.Cases {
		if k.From == "*" {
			ends = append(ends, 1<<32)
			continue
		}
		share, err := grammar.ParsePercent(k.From)
		if err != nil {
			return nil, err
		}
		if sum += share; sum > whole {
			return nil, fmt.Errorf("the percentages add up to more than 100 at %q", k.From)
		}
		last += uint64(share) * 0xffffffff / whole
		ends = append(ends, last)
	}
	return func(_ *exchange, s string) *text {
		hash := uint64(murmur2(s))
		for i, end := range ends {
			if hash < end {
				return values[i]
			}
		}
		return defaultValue
	}, nil
}

// murmur2 is Austin Appleby's MurmurHash2 with the seed 0, as nginx's split_clients uses it.
func murmur2(s string) uint32 {
	const m = 0x5bd1e995
	h := uint32(len(s))
	for len(s) >= 4 {
		k := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h *= m
		h ^= k
		s = s[4:]
	}
	switch len(s) {
	case 3:
		h ^= uint32(s[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(s[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(s[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
