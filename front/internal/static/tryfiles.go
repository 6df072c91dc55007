package static

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/front/internal/nginxstatus"
	"github.com/tarehq/tare/front/internal/uri"
)

type tryFiles struct {
	files  []tryFile
	last   core.Text
	status int // responded with instead of last, if not 0
}

type tryFile struct {
	name core.Text
	kind files.Kind
}

// TryFilesModule finds files that exist: try_files.
func TryFilesModule() core.Module {
	return core.Module{Location: func(c *core.Compiler, loc *core.Location, from *conf.Location) {
		if len(from.TryFiles) > 0 {
			t := compileTryFiles(c, from.TryFiles)
			loc.Phases = core.AddStep(loc.Phases, core.Step{Phase: core.ContentPhase, Name: "try_files", Run: t.run})
		}
	}}
}

// run finds the first file that exists, and makes it the path of the exchange.
func (t *tryFiles) run(x *core.Exchange) core.Outcome {
	f := filesOf(x)
	for i := range t.files {
		name, kind := t.files[i].name.Eval(x), t.files[i].kind
		if x.RegexTimedOut {
			break
		}
		if strings.HasPrefix(name, "/") {
			var ok bool
			if name, ok = uri.CleanPath(name, x.Host.KeepSlashes); !ok {
				continue
			}
		}
		if kind == files.File && strings.HasSuffix(name, "/") || !f.alias && !strings.HasPrefix(name, "/") {
			continue
		}
		if f.triedKind(x, name) == kind {
			f.useTried(x, name)
			return core.Proceed
		}
	}
	last := t.last.Eval(x)
	switch {
	case x.RegexTimedOut:
		return x.Fail(http.StatusInternalServerError)
	case t.status != 0:
		return x.Fail(t.status)
	}
	if strings.HasPrefix(last, "@") {
		return x.RedirectNamed(last)
	}
	path, args, _ := strings.Cut(last, "?")
	// as in nginx a regular expression may match such a path, and no prefix does
	if !strings.HasPrefix(path, "/") {
		clean, ok := uri.CleanPath("/"+path, true)
		if !ok {
			return x.Fail(http.StatusInternalServerError)
		}
		return x.RedirectTo(clean[1:], args)
	}
	return x.Redirect(path, args)
}

// triedKind returns the kind of a name of try_files. In a location with a regular expression and an
// alias, the name follows the alias.
func (f *fileSet) triedKind(x *core.Exchange, name string) files.Kind {
	before := x.TriedFile
	x.TriedFile = name
	kind := f.kind(x, name)
	x.TriedFile = before
	return kind
}

// useTried makes a file that exists the path of the exchange. With an alias the path stays within
// the location's.
func (f *fileSet) useTried(x *core.Exchange, name string) {
	switch {
	case !f.alias:
		x.Path = name
	case f.prefix == "":
		x.TriedFile = name
	default:
		rest, _ := strings.CutPrefix(name, f.prefix)
		x.Path = f.prefix + rest
	}
}

func compileTryFiles(c *core.Compiler, from []conf.Text) *tryFiles {
	if len(from) == 1 {
		c.Failf("try_files: want a file before the fallback %q", from[0])
	}
	t := &tryFiles{}
	for _, f := range from[:len(from)-1] {
		one := tryFile{kind: files.File}
		if rest, ok := strings.CutSuffix(string(f), "/"); ok {
			f, one.kind = conf.Text(rest), files.Directory
		}
		if one.name = c.Text("try_files", f); one.name.Empty() && one.kind == files.Directory {
			one.name.Literal = "/"
		}
		t.files = append(t.files, one)
	}
	last := string(from[len(from)-1])
	if code, ok := strings.CutPrefix(last, "="); ok {
		n, err := strconv.Atoi(code)
		if err != nil || !nginxstatus.IsFinal(n) {
			c.Failf("try_files: invalid status %q: want one such as =404", last)
		}
		t.status = n
		return t
	}
	if t.last = c.Text("try_files", conf.Text(last)); t.last.Empty() {
		c.Failf("try_files: empty path")
	}
	return t
}

// EmptyGIFModule responds with an empty image: empty_gif.
func EmptyGIFModule() core.Module {
	return core.Module{Location: func(_ *core.Compiler, loc *core.Location, from *conf.Location) {
		if from.Empty {
			loc.Content = core.Page{Name: "an empty image", Respond: sendEmptyGIF}
		}
	}}
}

const emptyGIF = "GIF89a\x01\x00\x01\x00\x80\x01\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x01\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02L\x01\x00;"

func sendEmptyGIF(x *core.Exchange) core.Outcome {
	x.Response.Header()["Last-Modified"] = []string{"Mon, 28 Sep 1970 06:00:00 GMT"}
	return x.SendPage(http.StatusOK, "image/gif", []byte(emptyGIF))
}
