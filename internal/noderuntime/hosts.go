package noderuntime

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// hostTable is one [host."…"] table of hosts.toml, or its root.
type hostTable struct {
	Capabilities []string       `toml:"capabilities"`
	CA           any            `toml:"ca"`     // a path or a list of paths
	Client       any            `toml:"client"` // a path, a list of paths, a list of pairs
	SkipVerify   *bool          `toml:"skip_verify"`
	Header       map[string]any `toml:"header"`
	OverridePath bool           `toml:"override_path"`
	DialTimeout  string         `toml:"dial_timeout"`
	Rewrite      map[string]any `toml:"rewrite"` // k3s and RKE2 only
}

// parseHosts reads hosts.toml: its host tables in the order of the file, then
// the server, which is the registry itself if the file does not say otherwise.
// It fails where containerd does (core/remotes/docker/config/hosts.go,
// parseHostsFile).
func parseHosts(data []byte, dir string, ref registry.Reference) ([]Source, error) {
	order, err := hostOrder(data)
	if err != nil {
		return nil, err
	}
	var file struct {
		hostTable
		Server string               `toml:"server"`
		Host   map[string]hostTable `toml:"host"`
	}
	if err := toml.Unmarshal(data, &file); err != nil {
		return nil, positioned(err)
	}
	if len(order) >= maxSources {
		return nil, fmt.Errorf("it names more than %d hosts", maxSources)
	}
	var out []Source
	for _, name := range order {
		if name == "" {
			continue // no host: containerd's request to it fails at once, and the next is asked
		}
		s, err := file.Host[name].source(name, dir, ref)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	s, err := file.source(file.Server, dir, ref)
	if err != nil {
		return nil, err
	}
	if s.Host == "" {
		s = s.upstream(ref)
	}
	return append(out, s), nil
}

// hostOrder returns the host tables as they follow in the file, which a decoded
// map has lost. As in containerd only tables with a header of their own count,
// and sub-tables of the table before do not; hosts given as dotted keys or as an
// inline table are not used.
func hostOrder(data []byte) ([]string, error) {
	var p unstable.Parser
	p.Reset(data)
	var order []string
	last := ""
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table {
			continue
		}
		var parts []string
		for it := e.Key(); it.Next(); {
			parts = append(parts, string(it.Node().Data))
		}
		if len(parts) < 2 || parts[0] != "host" || parts[1] == last {
			continue
		}
		last = parts[1]
		order = append(order, last)
	}
	if err := p.Error(); err != nil {
		return nil, errors.New(classify.Redact(err.Error(), 160))
	}
	return order, nil
}

// unseenHosts returns the hosts that a decoder finds in a hosts.toml and
// containerd does not, sorted.
func unseenHosts(data []byte) []string {
	var file struct {
		Host map[string]any `toml:"host"`
	}
	order, err := hostOrder(data)
	if err != nil || toml.Unmarshal(data, &file) != nil {
		return nil
	}
	var out []string
	for _, h := range slices.Sorted(maps.Keys(file.Host)) {
		if !slices.Contains(order, h) && len(out) < maxSources {
			out = append(out, h)
		}
	}
	return out
}

// source turns a table into a Source; server is its URL, "" for a root without
// one, which leaves Host empty.
func (t hostTable) source(server, dir string, ref registry.Reference) (Source, error) {
	s := Source{File: path.Join(dir, "hosts.toml"), OverridePath: t.OverridePath}
	if server != "" {
		if !strings.HasPrefix(server, "http") {
			server = "https://" + server
		}
		u, err := url.Parse(server)
		if err != nil {
			return Source{}, fmt.Errorf("a host is not a URL")
		}
		if u.Scheme != "https" && u.Scheme != "http" {
			return Source{}, fmt.Errorf("the scheme of host %s is neither https nor http", classify.Redact(u.Host, 128))
		}
		s = s.at(&url.URL{Scheme: u.Scheme, Host: u.Host, Path: apiPath(u.Path, t.OverridePath)}, KindMirror)
		s.Namespace, s.Capabilities = ref.Registry, nil
		// containerd compares the names and not what they lead to (registry.go, isProxy)
		if u.Host == ref.Registry || ref.Registry == registry.DockerHub && u.Host == registry.DockerHubHost {
			s.Kind, s.Namespace = KindUpstream, ""
		}
	}
	if t.SkipVerify != nil {
		s.SkipVerify = *t.SkipVerify
	}
	if err := s.setCapabilities(t.Capabilities); err != nil {
		return Source{}, err
	}
	if err := s.setFiles(t, dir); err != nil {
		return Source{}, err
	}
	fields := map[string][]string{}
	for name, v := range t.Header {
		list, ok := stringList(v)
		if !ok {
			return Source{}, fmt.Errorf("header %q is neither a string nor a list of strings", classify.Redact(name, 64))
		}
		fields[name] = list
	}
	s.Fields = registry.NewFields(fields)
	if t.DialTimeout != "" {
		d, err := time.ParseDuration(t.DialTimeout)
		if err != nil {
			return Source{}, fmt.Errorf("dial_timeout %q is not a duration", classify.Redact(t.DialTimeout, 32))
		}
		s.DialTimeoutMS = d.Milliseconds()
	}
	s.rewrite = t.Rewrite
	tls := t.SkipVerify != nil || t.CA != nil || t.Client != nil
	s.HTTPSFirst = s.Scheme == "http" && tls && registry.PortOf(s.Host) != "80"
	return s, nil
}

// apiPath adds /v2 as containerd does; "/" keeps an empty override from being
// read as "not said".
func apiPath(p string, override bool) string {
	if p != "" {
		p = path.Clean(p)
	}
	switch {
	case override && p == "":
		return "/"
	case override || strings.HasSuffix(p, "/v2"):
		return p
	}
	return strings.TrimSuffix(p, "/") + "/v2"
}

func (s *Source) setCapabilities(names []string) error {
	if len(names) == 0 {
		names = []string{CapabilityPull, CapabilityResolve}
	}
	for _, name := range names {
		switch c := strings.ToLower(name); c {
		case CapabilityPull, CapabilityResolve:
			if !s.Can(c) {
				s.Capabilities = append(s.Capabilities, c)
			}
		case "push", "referrers": // known, and nothing to a pull
		default:
			return fmt.Errorf("capability %q is unknown", classify.Redact(name, 32))
		}
	}
	return nil
}

func (s *Source) setFiles(t hostTable, dir string) error {
	abs := func(p string) string {
		if path.IsAbs(p) || len(p) > 1 && p[1] == ':' {
			return p
		}
		return path.Join(dir, p)
	}
	if t.CA != nil {
		list, ok := stringList(t.CA)
		if !ok {
			return errors.New(`"ca" is neither a path nor a list of paths`)
		}
		for _, p := range list {
			s.CAFiles = append(s.CAFiles, abs(p))
		}
	}
	entries, isList := t.Client.([]any)
	if single, ok := t.Client.(string); ok {
		entries = []any{single}
	} else if t.Client != nil && !isList {
		return errors.New(`"client" is neither a path nor a list`)
	}
	for _, entry := range entries {
		list, ok := stringList(entry)
		_, single := entry.(string)
		switch {
		case ok && single:
			s.ClientFiles = append(s.ClientFiles, [2]string{abs(list[0]), ""})
		case ok && len(list) == 2:
			s.ClientFiles = append(s.ClientFiles, [2]string{abs(list[0]), abs(list[1])})
		default:
			return errors.New(`"client" has an entry that is neither a path nor a pair of paths`)
		}
	}
	return nil
}

// stringList takes a string or a list of strings.
func stringList(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case []any:
		out := make([]string, 0, len(v))
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			out = append(out, s)
		}
		return out, true
	}
	return nil, false
}

// rewritten applies the rewrite table of k3s and RKE2: regular expressions that
// change the repository at a mirror. Of several that match none is sure to win.
func (rd *reader) rewritten(s Source) Source {
	if len(s.rewrite) == 0 {
		return s
	}
	if !rd.Rewrites {
		rd.ignored(s.File, "it has a rewrite table, which only the containerd of k3s and RKE2 knows")
		return s
	}
	for _, pattern := range slices.Sorted(maps.Keys(s.rewrite)) {
		to, _ := s.rewrite[pattern].(string)
		re, err := regexp.Compile(pattern)
		if err != nil || !re.MatchString(rd.ref.Repository) {
			continue
		}
		if repository := re.ReplaceAllString(rd.ref.Repository, to); repository != rd.ref.Repository && registry.ValidRepository(repository) {
			s.Repository = repository
			break
		}
	}
	return s
}

// load reads a host directory. Certificate files count only where there is no
// hosts.toml that can be used.
func (rd *reader) load(dir string) []Source {
	file := path.Join(dir, "hosts.toml")
	data, ok := rd.read(file)
	if ok && len(data) > 0 {
		sources, err := parseHosts(data, dir, rd.ref)
		if err == nil {
			for i := range sources {
				sources[i] = rd.rewritten(sources[i])
			}
			rd.passedOver(dir, file, data, sources)
			return sources
		}
		rd.found(classify.NodeRuntimeConfigIgnored, file, fmt.Sprintf("%s does not parse (%s), so containerd logs that and goes to %s itself, without mirrors and settings", file, err, rd.ref.Host)).Severity = classify.SeverityWarn
	}
	s := Source{File: dir}
	rd.addCertFiles(&s, dir)
	return []Source{s.upstream(rd.ref)}
}

// passedOver notes what lies in a host directory and is not in force: host tables
// that containerd does not see, and certificates that a hosts.toml beside them
// does not name.
func (rd *reader) passedOver(dir, file string, data []byte, sources []Source) {
	for _, h := range unseenHosts(data) {
		rd.ignored(file, fmt.Sprintf("the host %s is written as a dotted key or an inline table, which containerd passes over: it wants a [host.\"…\"] header", classify.Redact(h, 128)))
	}
	var lying Source
	rd.addCertFiles(&lying, dir)
	named := map[string]bool{}
	for _, s := range sources {
		for _, name := range s.CAFiles {
			named[name] = true
		}
		for _, pair := range s.ClientFiles {
			named[pair[0]] = true
		}
	}
	for _, pair := range lying.ClientFiles {
		lying.CAFiles = append(lying.CAFiles, pair[0])
	}
	for _, name := range lying.CAFiles {
		if !named[name] {
			rd.ignored(name, "it lies beside a hosts.toml that does not name it, and is not read").Severity = classify.SeverityInfo
		}
	}
}
