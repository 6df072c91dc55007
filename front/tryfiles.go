package front

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/front/internal/uri"
)

// tryFiles is a try_files, compiled.
type tryFiles struct {
	files  []tryFile
	last   text
	status int // responded with instead of last, if not 0
}

type tryFile struct {
	name text
	kind files.Kind
}

// tryFilesModule finds files that exist: try_files.
func tryFilesModule() module {
	return module{location: func(c *compiler, loc *location, from *conf.Location) error {
		t, err := c.tryFiles(from.TryFiles)
		if err != nil {
			return fmt.Errorf("try_files: %w", err)
		}
		if t != nil {
			loc.phases = addStep(loc.phases, step{contentPhase, "try_files", t.run})
		}
		return nil
	}}
}

// run finds the first file that exists, and makes it the path of the exchange.
func (t *tryFiles) run(x *exchange) outcome {
	f := filesOf(x)
	for i := range t.files {
		name, kind := t.files[i].name.eval(x), t.files[i].kind
		if x.regexTimedOut {
			break
		}
		if strings.HasPrefix(name, "/") {
			var ok bool
			if name, ok = uri.CleanPath(name, x.host.keepSlashes); !ok {
				continue
			}
		}
		if kind == files.File && strings.HasSuffix(name, "/") || !f.alias && !strings.HasPrefix(name, "/") {
			continue
		}
		if f.triedKind(x, name) == kind {
			f.useTried(x, name)
			return proceed
		}
	}
	last := t.last.eval(x)
	switch {
	case x.regexTimedOut:
		return x.fail(http.StatusInternalServerError)
	case t.status != 0:
		return x.fail(t.status)
	}
	if strings.HasPrefix(last, "@") {
		return x.redirectNamed(last)
	}
	path, args := uri.Split(last)
	// as in nginx a regular expression may match such a path, and no prefix does
	if !strings.HasPrefix(path, "/") {
		clean, ok := uri.CleanPath("/"+path, true)
		if !ok {
			return x.fail(http.StatusInternalServerError)
		}
		return x.redirectTo(clean[1:], args)
	}
	return x.redirect(path, args)
}

// triedKind returns the kind of a name of try_files. In a location with a regular expression and an
// alias, the name follows the alias.
func (f *fileSet) triedKind(x *exchange, name string) files.Kind {
	before := x.triedFile
	x.triedFile = name
	kind := f.kind(x, name)
	x.triedFile = before
	return kind
}

// useTried makes a file that exists the path of the exchange. With an alias the path stays within
// the location's.
func (f *fileSet) useTried(x *exchange, name string) {
	switch {
	case !f.alias:
		x.path = name
	case f.prefix == "":
		x.triedFile = name
	default:
		rest, _ := strings.CutPrefix(name, f.prefix)
		x.path = f.prefix + rest
	}
}

// tryFiles compiles TryFiles.
func (c *compiler) tryFiles(from []conf.Text) (*tryFiles, error) {
	if len(from) == 0 {
		return nil, nil
	}
	if len(from) == 1 {
		return nil, fmt.Errorf("want a file before the fallback %q", from[0])
	}
	t := &tryFiles{}
	for _, f := range from[:len(from)-1] {
		one := tryFile{kind: files.File}
		if rest, ok := strings.CutSuffix(string(f), "/"); ok {
			f, one.kind = conf.Text(rest), files.Directory
		}
		var err error
		if one.name, err = c.text(f); err != nil {
			return nil, err
		}
		if one.name.empty() && one.kind == files.Directory {
			one.name.literal = "/"
		}
		t.files = append(t.files, one)
	}
	last := string(from[len(from)-1])
	if code, ok := strings.CutPrefix(last, "="); ok {
		n, err := strconv.Atoi(code)
		if err != nil || !isFinal(n) {
			return nil, fmt.Errorf("invalid status %q: want one such as =404", last)
		}
		t.status = n
		return t, nil
	}
	var err error
	t.last, err = c.text(conf.Text(last))
	if err == nil {
		err = c.checkNamedTarget(&t.last)
	}
	return t, err
}

// emptyGIFModule responds with an empty image: empty_gif.
func emptyGIFModule() module {
	return module{location: func(_ *compiler, loc *location, from *conf.Location) error {
		if from.Empty {
			loc.content = emptyGIFContent{}
		}
		return nil
	}}
}

// emptyGIFContent responds with a transparent image of one pixel: empty_gif.
type emptyGIFContent struct{}

const emptyGIF = "GIF89a\x01\x00\x01\x00\x80\x01\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x01\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02L\x01\x00;"

func (emptyGIFContent) serve(x *exchange) outcome {
	if x.method != http.MethodGet && x.method != http.MethodHead {
		return x.fail(http.StatusMethodNotAllowed)
	}
	header := x.w.Header()
	header["Content-Type"] = []string{"image/gif"}
	header["Content-Length"] = []string{strconv.Itoa(len(emptyGIF))}
	header["Last-Modified"] = []string{"Mon, 28 Sep 1970 06:00:00 GMT"}
	x.w.WriteHeader(x.pageStatus(http.StatusOK))
	if x.method != http.MethodHead {
		_, _ = x.w.Write([]byte(emptyGIF))
	}
	return responded
}

// explain implements content.
func (emptyGIFContent) explain(x *exchange, e *explanation) outcome {
	return e.respond(x, "an empty image")
}
