package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
)

// truth is what a state of the laboratory is in our words: the layers that name
// it rightly, best first.
type truth struct {
	layers []classify.Layer
	// hidden says that no text of that situation can show it. The reading may
	// then be wrong, but must not be the only one.
	hidden bool
}

// truths by the laboratory's own cause. A state that two teams may have to look
// at (a token server that answers 404 or a page) has two layers.
var truths = map[string]truth{
	"nxdomain": {layers: dnsLayer}, "servfail": {layers: dnsLayer}, "refused_by_resolver": {layers: dnsLayer},
	"resolver_timeout": {layers: dnsLayer}, "lame": {layers: dnsLayer},

	"refused": {layers: endpointLayer}, "reset": {layers: endpointLayer}, "closed_by_peer": {layers: endpointLayer},
	"tls_handshake_timeout": {layers: endpointLayer}, "header_timeout": {layers: endpointLayer}, "truncated": {layers: endpointLayer},
	"proxy": {layers: []classify.Layer{classify.LayerEndpoint, classify.LayerDNS}},

	"net_unreachable": {layers: routeLayer}, "host_unreachable": {layers: routeLayer}, "prohibited": {layers: routeLayer},
	"dial_timeout": {layers: routeLayer},

	"unknown_authority": {layers: tlsLayer}, "name_mismatch": {layers: tlsLayer}, "version": {layers: tlsLayer}, "not_yet_valid": {layers: tlsLayer},

	"5xx": {layers: []classify.Layer{classify.LayerRegistry}}, "token_500": {layers: []classify.Layer{classify.LayerRegistry, classify.LayerIdentity}},

	"denied": {layers: identityLayer}, "401_basic": {layers: identityLayer}, "token_403": {layers: identityLayer}, "token_401": {layers: identityLayer},
	"insufficient_scope": {layers: identityLayer}, "invalid_token": {layers: identityLayer}, "401_after_token": {layers: identityLayer},
	"403_no_body": {layers: identityLayer}, "401_unsupported_scheme": {layers: identityLayer}, "token_empty": {layers: identityLayer},
	"mirror_401": {layers: identityLayer}, "mirror_403": {layers: identityLayer},
	"token_404":  {layers: []classify.Layer{classify.LayerIdentity, classify.LayerEndpoint}},
	"token_html": {layers: []classify.Layer{classify.LayerIdentity, classify.LayerEndpoint}},

	"blob_unknown": {layers: imageLayer}, "404_no_body": {layers: imageLayer}, "platform": {layers: imageLayer}, "store_404": {layers: imageLayer},
	"tag_unknown": {layers: imageLayer},

	"reference": {layers: []classify.Layer{classify.LayerNode, classify.LayerImage}},
	"ca_file":   {layers: nodeLayer}, "capabilities": {layers: nodeLayer}, "blocked": {layers: nodeLayer},
	"hosts_toml_ignored_then_nxdomain": {layers: nodeLayer, hidden: true},

	// Of several hosts the runtimes keep one error, and not always the one that
	// matters.
	"upstream_refused_mirror_404": {layers: endpointLayer, hidden: true},
	"mirrors_dead_upstream_404":   {layers: imageLayer, hidden: true},
	"mirrors_dead_upstream_403":   {layers: identityLayer, hidden: true},
}

var (
	dnsLayer      = []classify.Layer{classify.LayerDNS}
	routeLayer    = []classify.Layer{classify.LayerRoute}
	endpointLayer = []classify.Layer{classify.LayerEndpoint}
	tlsLayer      = []classify.Layer{classify.LayerTLS}
	identityLayer = []classify.Layer{classify.LayerIdentity}
	imageLayer    = []classify.Layer{classify.LayerImage}
	nodeLayer     = []classify.Layer{classify.LayerNode}
)

// scoreLab scores texts whose true cause is known from the server's side.
func scoreLab(w io.Writer, records []record, misses bool) bool {
	var best, offered, hidden, operation count
	confident := 0
	table := confusion{}
	for _, r := range records {
		want, known := truths[r.Cause]
		if !known {
			fmt.Fprintf(w, "  %s: the state %q is not known here\n", r.ID, r.Cause)
			confident++
			continue
		}
		reading := r.read()
		layer, cause := said(reading)
		inBest := reading.Kind == classify.KindFailure && slices.Contains(want.layers, reading.Best.Layer)
		inAny := slices.ContainsFunc(want.layers, func(l classify.Layer) bool { return offersLayer(reading.Best, string(l)) })
		if want.hidden {
			hidden.add(inAny)
		} else {
			best.add(inBest)
			offered.add(inAny)
			if !inBest {
				table.add(string(want.layers[0]), layer)
			}
		}
		// Wrong and with nothing beside it that would send somebody else.
		if reading.Kind == classify.KindFailure && !inAny && reading.Best.Layer != classify.LayerUnknown && len(otherOwners(reading.Best)) == 0 {
			confident++
			if misses {
				fmt.Fprintf(w, "  %s (%s, %s): CONFIDENT %s for %s %s\n", r.ID, r.Runtime, r.Scenario, cause, r.Layer, r.Cause)
			}
		} else if misses && !inBest {
			fmt.Fprintf(w, "  %s (%s, %s): %s %v for %s %s\n", r.ID, r.Runtime, r.Scenario, cause, reading.Best.Alternatives, r.Layer, r.Cause)
		}
		if op, ok := labOperations[r.Operation]; ok {
			right := slices.Contains(op, reading.Best.Operation)
			operation.add(right)
			if misses && !right {
				fmt.Fprintf(w, "  %s (%s, %s): operation %s, read %s\n", r.ID, r.Runtime, r.Scenario, r.Operation, reading.Best.Operation)
			}
		}
	}
	best.print(w, "best")
	offered.print(w, "offered")
	hidden.print(w, "hidden")
	operation.print(w, "operation")
	fmt.Fprintf(w, "  %-10s %3d  (a wrong owner and no other reading)\n", "confident", confident)
	table.print(w)
	return offered.right == offered.of && confident == 0
}

// otherOwners returns the owners that the other readings of f would send to.
func otherOwners(f classify.Finding) []classify.Owner {
	var owners []classify.Owner
	for _, c := range f.Alternatives {
		if info, ok := classify.Lookup(c); ok && info.Owner != f.Owner && !slices.Contains(owners, info.Owner) {
			owners = append(owners, info.Owner)
		}
	}
	return owners
}

// labOperations are the laboratory's words for our operations. What it calls
// config fails before any request.
var labOperations = map[string][]classify.Operation{
	"manifest": {classify.OperationResolveManifest}, "ping": {classify.OperationResolveManifest}, "token": {classify.OperationFetchToken},
	"blob": {classify.OperationFetchBlob}, "blob_store": {classify.OperationFetchBlob},
}
