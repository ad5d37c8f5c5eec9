package noderuntime

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestConfigFile(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"containerd":                                  "",
		"containerd --config /etc/other.toml":         "/etc/other.toml",
		"containerd --config=/etc/other.toml":         "/etc/other.toml",
		"containerd -l debug -c /etc/other.toml":      "/etc/other.toml",
		"containerd --config":                         "",
		"-c /not/an/argument/but/the/name":            "",
		"containerd --root /x --config /a --config=b": "/a",
		"": "",
	} {
		assert.Equal(t, want, configFile(splitArgs([]byte(strings.ReplaceAll(args, " ", "\x00")+"\x00"))), args)
	}
}
