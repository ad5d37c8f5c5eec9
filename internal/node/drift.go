package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// What was changed by hand on a node makes its success worthless as proof for its
// pool. Four kinds leave a trace that can be read: an entry of the hosts file, a
// route that `ip route add` left, a root that the trust store's tool does not
// know, and a resolver file that is a changed copy of a managed one. Packet
// filters, sysctls, files that a tool was given by hand, and hosts.toml files that
// somebody wrote on one node alone look like the supported configuration, and
// nothing is said of them.

// drift is a finding about a change of which a fresh node knows nothing.
func drift(summary string, facts ...classify.Fact) classify.Finding {
	f := classify.New(classify.NodeHandEdit, summary, facts...)
	f.Severity, f.Certainty = classify.SeverityInfo, classify.CertaintyLikely
	return f
}

// RouteByHand judges the entry of the routing table that decides. A default route
// of the same kind is usual: scripts of DHCP clients set it.
func RouteByHand(r *reach.Route) []classify.Finding {
	if r == nil || r.Protocol != "boot" || r.Kind != reach.RouteUnicast || !r.Prefix.IsValid() || r.Prefix.Bits() == 0 {
		return nil
	}
	way := ""
	facts := []classify.Fact{{Key: classify.FactPrefix, Value: r.Prefix.String()}}
	if r.Gateway.IsValid() {
		way = " via " + r.Gateway.String()
		facts = append(facts, classify.Fact{Key: classify.FactGateway, Value: r.Gateway.String()})
	}
	if r.Interface != "" {
		way += " dev " + r.Interface
		facts = append(facts, classify.Fact{Key: classify.FactInterface, Value: r.Interface})
	}
	return []classify.Finding{drift(fmt.Sprintf("the route %v%s leads there; it has the mark of `ip route add` or of a script, not of DHCP or a network manager", r.Prefix, way), facts...)}
}

// RootByHand judges the root that a chain ends at. It costs a look at some hundred files.
func (v *View) RootByHand(rep *tlsauth.TLSReport) []classify.Finding {
	if !rep.Verified {
		return nil
	}
	tool := v.RootFiles.Unmanaged(rep.RootSHA256)
	if tool == "" {
		return nil
	}
	return []classify.Finding{drift(fmt.Sprintf("the root in %s that is trusted here comes from nothing that %s builds this store from, so its next run takes it away", rep.TrustedBy, tool),
		classify.Fact{Key: classify.FactFile, Value: rep.TrustedBy})}
}

const (
	resolvConf      = "etc/resolv.conf"
	resolvedFiles   = "run/systemd/resolve/"
	maxResolverFile = 64 << 10
)

// ResolverByHand recognises a resolver file that began as one of systemd-resolved
// and is now a file of its own that names other nameservers: what an editor makes
// of the link. file is the one that counts, in tree.
func ResolverByHand(tree fs.FS, file string) []classify.Finding {
	if tree == nil || file != "/"+resolvConf {
		return nil
	}
	if info, err := fs.Lstat(tree, resolvConf); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	own, err := readHead(tree, resolvConf)
	if err != nil || !bytes.Contains(own, []byte("man:systemd-resolved(8)")) {
		return nil
	}
	seen := false
	for _, name := range []string{"stub-resolv.conf", "resolv.conf"} {
		managed, err := readHead(tree, resolvedFiles+name)
		if err != nil {
			continue
		}
		if seen = true; slices.Equal(nameserverLines(managed), nameserverLines(own)) {
			return nil
		}
	}
	if !seen {
		return nil // there is nothing to compare with
	}
	return []classify.Finding{drift(fmt.Sprintf("/%s names systemd-resolved as its author, and is a file of its own with other nameservers than it has now", resolvConf),
		classify.Fact{Key: classify.FactFile, Value: "/" + resolvConf})}
}

func nameserverLines(file []byte) []string {
	var out []string
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == "nameserver" {
			out = append(out, words[1])
		}
	}
	return out
}

// readHead reads a small regular file.
func readHead(tree fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(tree, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe may never return
		return nil, errors.New("no regular file")
	}
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxResolverFile))
}
