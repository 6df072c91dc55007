package clients

import (
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/grammar"
)

// SplitClientsModule makes variables of shares of clients: split_clients.
func SplitClientsModule() core.Module {
	return core.Module{MapKinds: map[string]core.MapKind{"split_clients": percentages}}
}

// percentages compiles the cases to ranges of hashes.
func percentages(c *core.Compiler, m *conf.Map, values []*core.Text, defaultValue *core.Text) core.MapLookup {
	const whole = 10000 // in hundredths of a percent
	var ends []uint64   // exclusive
	sum, last := 0, uint64(0)
	for _, k := range m.Cases {
		if k.From == "*" {
			ends = append(ends, 1<<32)
			continue
		}
		share, err := grammar.ParsePercent(k.From)
		c.Check("map $"+m.Name, err)
		if sum += share; sum > whole {
			c.Failf("map $%s: the percentages add up to more than 100 at %q", m.Name, k.From)
		}
		last += uint64(share) * 0xffffffff / whole
		ends = append(ends, last)
	}
	return func(_ *core.Exchange, s string) *core.Text {
		hash := uint64(murmur2(s))
		for i, end := range ends {
			if hash < end {
				return values[i]
			}
		}
		return defaultValue
	}
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
