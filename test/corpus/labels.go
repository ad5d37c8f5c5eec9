package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// scoreLabels scores texts labelled by hand: layer, cause, operation and host.
// What the label leaves empty or "unknown" has to be empty or unknown.
func scoreLabels(w io.Writer, records []record, misses bool, least float64) bool {
	var layer, cause, operation, host, shown count
	table := confusion{}
	causes := map[string]int{}
	for _, r := range records {
		reading := r.read()
		gotLayer, gotCause := said(reading)
		layerOK, causeOK := gotLayer == r.Layer, gotCause == r.Cause
		if r.ambiguous() {
			layerOK = layerOK || offersLayer(reading.Best, r.Layer)
			causeOK = causeOK || slices.Contains(reading.Best.Alternatives, classify.Cause(r.Cause))
		}
		layer.add(layerOK)
		cause.add(causeOK)
		if !layerOK {
			table.add(r.Layer, gotLayer)
		}
		if !causeOK {
			causes[r.Cause+" read as "+gotCause]++
		}
		var wrong []string
		if !causeOK {
			wrong = append(wrong, fmt.Sprintf("cause %s, read %s %v", r.Cause, gotCause, reading.Best.Alternatives))
		}
		if r.Layer != "ok" && r.Layer != "backoff" {
			ok := orUnknown(string(operationOf(reading))) == orUnknown(r.Operation)
			operation.add(ok)
			if !ok {
				wrong = append(wrong, fmt.Sprintf("operation %s, read %s", orUnknown(r.Operation), orUnknown(string(operationOf(reading)))))
			}
			ok = reading.Best.Endpoint == r.Host
			host.add(ok)
			if r.Host != "" {
				shown.add(ok)
			}
			if !ok {
				wrong = append(wrong, fmt.Sprintf("host %q, read %q", r.Host, reading.Best.Endpoint))
			}
		}
		if misses && len(wrong) > 0 {
			fmt.Fprintf(w, "  %s: %s\n", r.ID, strings.Join(wrong, "; "))
		}
	}
	layer.print(w, "layer")
	cause.print(w, "cause")
	operation.print(w, "operation")
	host.print(w, "host")
	shown.print(w, "host given")
	table.print(w)
	if len(causes) > 0 {
		fmt.Fprintln(w, "  causes confused:")
		for _, pair := range slices.Sorted(maps.Keys(causes)) {
			fmt.Fprintf(w, "  %4d  %s\n", causes[pair], pair)
		}
	}
	return min(layer.share(), cause.share(), operation.share(), host.share()) >= least
}

func (r record) ambiguous() bool {
	return strings.Contains(r.Note, "ambiguous") || len(r.Alternatives) > 0
}

func operationOf(r classify.Reading) classify.Operation {
	if r.Kind != classify.KindFailure {
		return ""
	}
	return r.Best.Operation
}

func orUnknown(operation string) string {
	if operation == "" {
		return string(classify.OperationUnknown)
	}
	return operation
}

// offersLayer reports whether a finding or one of its other readings is of layer.
func offersLayer(f classify.Finding, layer string) bool {
	return string(f.Layer) == layer && f.Layer != "" || slices.ContainsFunc(f.Alternatives, func(c classify.Cause) bool { return string(classify.LayerOf(c)) == layer })
}

// confusion counts wrong layers: label -> what was read.
type confusion map[string]map[string]int

func (c confusion) add(label, read string) {
	if c[label] == nil {
		c[label] = map[string]int{}
	}
	c[label][read]++
}

// print prints labels as rows and readings as columns, those in use only.
func (c confusion) print(w io.Writer) {
	if len(c) == 0 {
		fmt.Fprintln(w, "  no layer confused")
		return
	}
	columns := map[string]bool{}
	for _, row := range c {
		for read := range row {
			columns[read] = true
		}
	}
	names := slices.Sorted(maps.Keys(columns))
	fmt.Fprint(w, "  label \\ read ")
	for _, name := range names {
		fmt.Fprintf(w, "%9s", name)
	}
	fmt.Fprintln(w)
	for _, label := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(w, "  %-13s", label)
		for _, name := range names {
			if n := c[label][name]; n > 0 {
				fmt.Fprintf(w, "%9d", n)
			} else {
				fmt.Fprintf(w, "%9s", ".")
			}
		}
		fmt.Fprintln(w)
	}
}
