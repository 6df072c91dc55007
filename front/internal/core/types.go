package core

import (
	"cmp"
	"reflect"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/mediatype"
)

// typesKey identifies a mediatype.Table within a Config.
type typesKey struct {
	table                      uintptr // address of the map, which does not change within a Config
	defaultType, charset, with string
	isDefault                  bool // with is nil
}

// MediaTypes compiles the types of a location. Equal ones are shared.
func (c *Compiler) MediaTypes(f *conf.Files) *mediatype.Table {
	table := f.Types
	if table == nil {
		table = c.Config.Types
	}
	key := typesKey{reflect.ValueOf(table).Pointer(), cmp.Or(f.DefaultType, "text/plain"), f.Charset,
		Joined(f.CharsetTypes), f.CharsetTypes == nil}
	t, _ := Shared(c, key, func() (*mediatype.Table, error) { return mediatype.New(f, table, key.defaultType), nil })
	return t
}
