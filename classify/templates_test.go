package classify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// templates are the forms in which kubelet, runtimes and the libraries below
// them word a pull, by family and number: K kubelet, C containerd, O CRI-O,
// D docker, R route and sockets, N names, P proxies, T TLS, S sandbox image,
// W Windows.
var templates = map[string][]int{
	"K": numbers(1, 23),
	"C": append(numbers(1, 44), numbers(50, 59)...),
	"O": numbers(1, 38),
	"D": numbers(1, 19),
	"R": numbers(1, 16),
	"N": numbers(1, 15),
	"P": numbers(1, 9),
	"T": numbers(1, 23),
	"S": numbers(1, 5),
	"W": numbers(1, 9),
}

func numbers(from, to int) []int {
	var list []int
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

// One text per template shows only that its own words are known; two, with other
// names and other wrappers, that its form is.
func TestEveryTemplateHasTwoTexts(t *testing.T) {
	t.Parallel()
	texts := map[string]map[string]bool{}
	for _, l := range labelledTexts(t) {
		if texts[l.Template] == nil {
			texts[l.Template] = map[string]bool{}
		}
		texts[l.Template][l.Text] = true
	}
	known := map[string]bool{}
	for family, list := range templates {
		for _, n := range list {
			id := fmt.Sprintf("%s%02d", family, n)
			known[id] = true
			assert.GreaterOrEqual(t, len(texts[id]), 2, "texts of template %s", id)
		}
	}
	for id := range texts {
		if len(id) == 3 && strings.Contains("KCODRNPTSW", id[:1]) {
			assert.True(t, known[id], "template %s is not in the list", id)
		}
	}
}
