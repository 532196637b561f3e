package main

import (
	"errors"
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	good := runOptions{pids: "4096", tmpfsSize: "1g", shm: "256m"}
	if l, err := good.limits(); err != nil || l.Pids != "4096" || l.Shm != "256m" {
		t.Fatalf("the defaults: %+v, %v", l, err)
	}
	for flag, c := range map[string]struct {
		set       func(*runOptions, string)
		good, bad string
	}{
		"--pids-limit": {func(o *runOptions, v string) { o.pids = v }, "1 4096 0", "-1 x 1.5 4k 99999999 +1 1_0"},
		"--memory":     {func(o *runOptions, v string) { o.memory = v }, "0 8g 512M 2097152 1t 1024k", "8 8gb 8GiB 1.5g g -1g 1k 9999999g 1_0g +8g 0g"},
		"--cpus":       {func(o *runOptions, v string) { o.cpus = v }, "0 1 1.5 0.25 128", "-1 x 1e3 0.001 .5 1. inf 0x1p1 100000 1_0"},
		"--tmpfs-size": {func(o *runOptions, v string) { o.tmpfsSize = v }, "1g 64m 1m", "0 0g 50% 1 x k,mode=0777 1g,exec"},
		"--min-free":   {func(o *runOptions, v string) { o.minFree = v }, "0 1g 300m", "-1 1 50% 10gb"},
		"--shm-size":   {func(o *runOptions, v string) { o.shm = v }, "1g 64M", "0 -1 256mb"},
	} {
		for v := range strings.FieldsSeq(c.good) {
			o := good
			c.set(&o, v)
			if _, err := o.limits(); err != nil {
				t.Errorf("%s %s: %v", flag, v, err)
			}
		}
		for _, v := range append(strings.Fields(c.bad), " 1g") {
			o := good
			c.set(&o, v)
			_, err := o.limits()
			var e *exitError
			if !errors.As(err, &e) || e.code != exitUsage || !strings.HasPrefix(e.Error(), flag+` "`+v+`" is not a `) ||
				!strings.HasPrefix(e.hint, "for example "+flag+" ") {
				t.Errorf("%s %q: %+v", flag, v, err)
			}
		}
	}
	for text, want := range map[string]uint64{"1g": 1 << 30, "300M": 300 << 20, "2097152": 2 << 20, "0": 0} {
		if got, _ := parseSize(text); got != want {
			t.Errorf("%s is %d bytes, want %d", text, got, want)
		}
	}
	o := good
	o.tmpfsSize = ""
	if _, err := o.limits(); err == nil {
		t.Error("an empty --tmpfs-size passes")
	}
}
