package noderuntime

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestStarted(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	stat := "812 (a (odd) name) S 1 812 812 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 9 0 9050 1 1 1\n"
	for name, tt := range map[string]struct {
		stat, uptime string
		want         time.Time
	}{
		"usual":        {stat, "100.50 190.00\n", now.Add(-10 * time.Second)},
		"no uptime":    {stat, "", time.Time{}},
		"odd uptime":   {stat, "later\n", time.Time{}},
		"short":        {"812 (x) S 1\n", "100.50 190.00\n", time.Time{}},
		"no name":      {"812\n", "100.50 190.00\n", time.Time{}},
		"odd start":    {"812 (x) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 x 1\n", "1 1\n", time.Time{}},
		"not a number": {"812 (x) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 99999999999999999999 1\n", "1 1\n", time.Time{}},
	} {
		tree := fstest.MapFS{"proc/812/stat": {Data: []byte(tt.stat)}, "proc/uptime": {Data: []byte(tt.uptime)}}
		assert.Equal(t, tt.want, started(tree, "812", now), name)
	}
	assert.Zero(t, started(fstest.MapFS{}, "812", now))
}
