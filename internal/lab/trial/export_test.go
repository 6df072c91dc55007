package trial

// IgnoreRest lets contenders use CPU time while they receive no request: on a busy machine one may
// do late what its warm-up has left.
func (b *Bench) IgnoreRest() { b.BoundRest(1e9) }

// BoundRest replaces the share of a CPU above which contenders are measured alone.
func (b *Bench) BoundRest(share float64) { b.restBound = share }
