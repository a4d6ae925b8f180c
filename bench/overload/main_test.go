package main

import (
	"slices"
	"testing"
	"time"

	"sluice/bench/overload/scene"
)

func TestParse(t *testing.T) {
	o, err := parse(nil)
	if err != nil || !slices.Equal(o.scenes, scene.Names()) || o.load.From != 10 || o.load.To != 250 || o.load.Every != 10*time.Second {
		t.Errorf("without arguments: %+v, %v", o, err)
	}
	o, err = parse([]string{"-scenes", "blog,flat", "-users", "20..60", "-think", "", "-limits", "8,16"})
	if err != nil || !slices.Equal(o.limits, []int{8, 16}) || !slices.Equal(o.scenes, []string{"blog", "flat"}) || o.load.From != 20 || o.load.To != 60 || o.load.Think != "" {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range [][]string{
		{"-scenes", "blog,other"}, {"-users", "10"}, {"-users", "10..10"}, {"-users", "0..10"}, {"-step", "0"},
		{"-rounds", "0"}, {"-limits", "8,"}, {"-limits", "0"}, {"-every", "10ms"}, {"-hold", "0s"}, {"-settle", "-1s"}, {"-phase", "1ms"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
