package app

import (
	"reflect"
	"strings"
	"testing"

	"sluice/bench/overload/drive"
)

// TestCutOfTheShop: the application tells all that is read of a cut, by the same names.
func TestCutOfTheShop(t *testing.T) {
	for field := range reflect.TypeFor[drive.Cut]().Fields() {
		name := `\"` + field.Tag.Get("json") + `\": `
		if !strings.Contains(string(source), name) {
			t.Errorf("App.java does not tell %s", name)
		}
	}
}
