package classify

import (
	"cmp"
	"slices"
)

// Info is what the catalogue knows of a cause, whatever the case at hand.
type Info struct {
	Cause      Cause
	Layer      Layer
	Owner      Owner
	Title      string // a short clause: what is wrong
	Look       string // where to look first
	Remedy     string // what repairs it, least invasive first
	NotFixedBy string // what people try, and why it cannot help
	Ref        string // the official document, a URL
	Refines    Cause  // the coarser code that a text alone can show; "" = none
}

// Lookup returns what the catalogue knows of c. False means that c is no code of
// this package (a caller's own code, or one of a newer version).
func Lookup(c Cause) (Info, bool) {
	layer := LayerOf(c)
	entries := entriesOf(layer)
	i, ok := slices.BinarySearchFunc(entries, c, func(e Info, c Cause) int { return cmp.Compare(e.Cause, c) })
	if !ok {
		return Info{}, false
	}
	info := entries[i]
	info.Layer = layer
	return info, true
}

// Catalogue returns every entry, by layer as in [Order], then by code. The slice
// is the caller's own.
func Catalogue() []Info {
	var all []Info
	for _, layer := range Order() {
		for _, info := range entriesOf(layer) {
			info.Layer = layer
			all = append(all, info)
		}
	}
	return all
}

// entriesOf returns the table of a layer, sorted by code, to be read only. The
// tables leave Layer empty, because the code already says it: written twice, the
// two could differ.
func entriesOf(l Layer) []Info {
	switch l {
	case LayerNode:
		return nodeEntries
	case LayerRoute:
		return routeEntries
	case LayerDNS:
		return dnsEntries
	case LayerEndpoint:
		return endpointEntries
	case LayerTLS:
		return tlsEntries
	case LayerRegistry:
		return registryEntries
	case LayerIdentity:
		return identityEntries
	case LayerImage:
		return imageEntries
	case LayerUnknown:
		return unknownEntries
	}
	return nil
}
