package classify

import (
	"cmp"
	"slices"
)

// Lookup returns what the catalogue knows of c. False means that c is no code of
// this package (a caller's own code, or one of a newer version).
func Lookup(c Cause) (Info, bool) {
	layer := LayerOf(c)
	table := entries[layer]
	i, ok := slices.BinarySearchFunc(table, c, func(e Info, c Cause) int { return cmp.Compare(e.Cause, c) })
	if !ok {
		return Info{}, false
	}
	info := table[i]
	info.Layer = layer
	return info, true
}

// Catalogue returns every entry, by layer as in [Order], then by code. The slice
// is the caller's own.
func Catalogue() []Info {
	var all []Info
	for _, layer := range Order() {
		for _, info := range entries[layer] {
			info.Layer = layer
			all = append(all, info)
		}
	}
	return all
}

// entries holds a table for each layer, sorted by code, to be read only. The
// tables leave Layer empty, because the code already says it: written twice, the
// two could differ.
var entries = map[Layer][]Info{
	LayerNode: nodeEntries, LayerRoute: routeEntries, LayerDNS: dnsEntries, LayerEndpoint: endpointEntries, LayerTLS: tlsEntries,
	LayerRegistry: registryEntries, LayerIdentity: identityEntries, LayerImage: imageEntries, LayerUnknown: unknownEntries,
}

// New returns a failing, proven Finding of cause, with layer, owner, remedy and
// what does not fix it from the catalogue. An empty summary becomes the
// catalogue's title. A cause that the catalogue does not hold keeps the layer of
// its code if that is one of ours, else [LayerUnknown], and has no owner.
func New(cause Cause, summary string, facts ...Fact) Finding {
	f := Finding{
		Cause: cause, Layer: LayerOf(cause), Severity: SeverityFail, Certainty: CertaintyProven,
		Summary: summary, Facts: facts,
	}
	if info, ok := Lookup(cause); ok {
		f.Layer, f.Owner, f.Remedy, f.NotFixedBy = info.Layer, info.Owner, info.Remedy, info.NotFixedBy
		if f.Summary == "" {
			f.Summary = info.Title
		}
	}
	return f
}
