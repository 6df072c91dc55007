package nginxconf

import (
	"cmp"

	"github.com/tarehq/tare/front/internal/grammar"
)

// nginxPage is nginx's default size of a buffer: a page of memory.
const nginxPage = 4 << 10

// checkBuffers reports sizes of buffers that nginx rejects together. kind is proxy or fastcgi. As
// in nginx those of http count in its servers.
func (t *translator) checkBuffers(s *scope, kind string) {
	of := func(name string) string { return kind + "_" + name }
	holder := s.holder(of("buffers"), of("buffer_size"), of("busy_buffers_size"), of("temp_file_write_size"),
		of("max_temp_file_size"))
	if holder == nil || s.level == levelHTTP || holder != s && s.level != levelServer {
		return
	}
	buffers := s.one(of("buffers"))
	count, each := int64(8), int64(nginxPage)
	if buffers != nil {
		count, _ = grammar.ParseNumber(buffers.args[0]) // the checker has validated both
		each, _ = grammar.ParseSize(buffers.args[1])
	}
	first, has := s.size(of("buffer_size"))
	if !has {
		first = nginxPage
	}
	largest := max(first, each)
	busy, has := s.size(of("busy_buffers_size"))
	if !has {
		busy = 2 * largest
	}
	blamed := cmp.Or(s.one(of("busy_buffers_size")), s.one(of("buffer_size")), buffers)
	switch {
	case count < 2:
		t.errorf(buffers, "at least 2 buffers are required")
	case busy < largest:
		t.errorf(blamed, "%s must be at least as large as %s and one of %s", of("busy_buffers_size"),
			of("buffer_size"), of("buffers"))
	case busy > (count-1)*each:
		t.errorf(blamed, "%s, by default twice the largest buffer, must not exceed all but one of %s",
			of("busy_buffers_size"), of("buffers"))
	}
	for _, name := range []string{of("temp_file_write_size"), of("max_temp_file_size")} {
		if n, has := s.size(name); has && n < largest && (n != 0 || name == of("temp_file_write_size")) {
			t.errorf(s.one(name), "must be at least as large as %s and one of %s", of("buffer_size"), of("buffers"))
		}
	}
}
