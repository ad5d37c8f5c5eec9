package pullwalk

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// handEdits lists what was changed by hand and took part in the pull that served
// served, the nameservers' routes with it.
func handEdits(sources []Source, served int) []string {
	var out []string
	add := func(edit string) {
		if !slices.Contains(out, edit) {
			out = append(out, edit)
		}
	}
	for i, s := range sources {
		for _, e := range s.Endpoints {
			if i != served && e.Scheme != pull.SchemeDNS || len(e.Roles) == 1 && e.Roles[0] == endpoints.RoleExpected {
				continue
			}
			for _, st := range e.Steps {
				for _, f := range st.Findings {
					switch f.Cause {
					case classify.DNSHostsOverride:
						add(fmt.Sprintf("%s: entry for %s", cmp.Or(f.Fact(classify.FactFile), "hosts file"), e.Host))
					case classify.NodeHandEdit:
						add(e.HostPort() + ": " + f.Summary)
					}
				}
			}
		}
	}
	return out
}
