package reach

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxTableBytes: the largest table that a cloud gives has a few hundred
	// routes, the Internet's own in JSON some 200 MB, which nobody's node has.
	maxTableBytes = 16 << 20
	// maxTableEntries bounds the prefixes of all entries together.
	maxTableEntries = 200_000
)

var errTableTooLarge = fmt.Errorf("more than %d bytes", maxTableBytes)

// readTableInput reads an input whole, up to the limit.
func readTableInput(r io.Reader) ([]byte, error) {
	if r == nil {
		return nil, errors.New("no input")
	}
	data, err := io.ReadAll(io.LimitReader(r, maxTableBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxTableBytes:
		return nil, errTableTooLarge
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // PowerShell writes one
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("empty input")
	}
	return data, nil
}

// decodeList decodes a JSON list, or an object whose field "value" is one, as
// the Azure CLI prints it.
func decodeList[T any](r io.Reader) ([]T, error) {
	data, err := readTableInput(r)
	if err != nil {
		return nil, err
	}
	var list []T
	if bytes.TrimSpace(data)[0] == '[' {
		err = json.Unmarshal(data, &list)
	} else {
		var object struct {
			Value *[]T `json:"value"`
		}
		if err = json.Unmarshal(data, &object); err == nil {
			if object.Value == nil {
				return nil, errors.New(`neither a list nor an object with a list "value"`)
			}
			list = *object.Value
		}
	}
	if err != nil {
		return nil, shortJSONError(err)
	}
	return list, nil
}

// shortJSONError keeps place and type of a mistake, and none of the input.
func shortJSONError(err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("no JSON: mistake at byte %d", syntax.Offset)
	case errors.As(err, &typ):
		return fmt.Errorf("JSON of another shape: a %s in field %q", typ.Value, typ.Field)
	}
	return errors.New("no JSON that is understood")
}

// oneOrMany is a JSON string or a list of strings; null is none.
type oneOrMany []string

func (o *oneOrMany) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(o))
	}
	var one *string
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*o = nil
	if one != nil && *one != "" {
		*o = oneOrMany{*one}
	}
	return nil
}

// parsePrefix reads "10.20.0.0/16" or a bare address. An IPv4 prefix in IPv6
// form, a zone, and set host bits are mistakes that would match the wrong
// addresses, except the last, which every router masks.
func parsePrefix(s string) (netip.Prefix, error) {
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "/") {
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is no prefix", clip(s))
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is no prefix", clip(s))
	}
	return p.Masked(), nil
}

func parseHop(s string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(strings.TrimSpace(s))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("next hop %q is no address", clip(s))
	}
	return addr.Unmap().WithZone(""), nil
}

// clip bounds a quoted part of an input.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// counted bounds the number of entries.
type counted int

func (c *counted) add(n int) error {
	if *c += counted(n); *c > maxTableEntries {
		return fmt.Errorf("more than %d prefixes", maxTableEntries)
	}
	return nil
}

// ParseCSVRoutes reads routes in the plain form that any other source can be
// brought into. The first line names the columns, in any order: "prefix" and
// "hop" (a kind of [NextHop], except "other") are needed, "address", "interface", "source",
// "metric", "state" ("active", the default, or "inactive") and "name" are not.
// Empty lines and lines that begin with # are passed over.
//
//	prefix,hop,address,source
//	10.20.0.0/16,gateway,,bgp
//	0.0.0.0/0,appliance,10.1.255.4,user
func ParseCSVRoutes(r io.Reader) ([]TableRoute, error) {
	data, err := readTableInput(r)
	if err != nil {
		return nil, fmt.Errorf("reach: CSV routes: %w", err)
	}
	in := csv.NewReader(bytes.NewReader(data))
	in.Comment, in.TrimLeadingSpace, in.ReuseRecord = '#', true, true
	header, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("reach: CSV routes: %w", shortCSVError(err))
	}
	var columns []string
	for _, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains([]string{"prefix", "hop", "address", "interface", "source", "metric", "state", "name"}, name) {
			return nil, fmt.Errorf("reach: CSV routes: unknown column %q", clip(name))
		}
		if slices.Contains(columns, name) {
			return nil, fmt.Errorf("reach: CSV routes: column %q stands twice", name)
		}
		columns = append(columns, name)
	}
	if !slices.Contains(columns, "prefix") || !slices.Contains(columns, "hop") {
		return nil, errors.New(`reach: CSV routes: the columns "prefix" and "hop" are needed`)
	}
	var routes []TableRoute
	var count counted
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return routes, nil
		}
		line, _ := 0, 0
		var route TableRoute
		if err != nil {
			err = shortCSVError(err)
		} else {
			line, _ = in.FieldPos(0)
			if err = count.add(1); err == nil {
				route, err = csvRoute(columns, fields)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reach: CSV routes: line %d: %w", line, err)
		}
		routes = append(routes, route)
	}
}

func csvRoute(columns, fields []string) (route TableRoute, err error) {
	for i, name := range columns {
		value := strings.TrimSpace(fields[i])
		switch name {
		case "prefix":
			route.Prefix, err = parsePrefix(value)
		case "hop":
			route.Kind = strings.ToLower(value)
			if !slices.Contains([]string{hopNone, hopInternet, hopLocal, hopPeering, hopGateway, hopAppliance, hopEndpoint, hopUnreachable, hopProhibit}, route.Kind) {
				err = fmt.Errorf("hop %q", clip(value))
			}
		case "address":
			if value != "" {
				route.Address, err = parseHop(value)
			}
		case "interface":
			route.Interface = clip(value)
		case "source":
			route.Source = clip(strings.ToLower(value))
		case "metric":
			if value != "" {
				if route.Metric, err = strconv.Atoi(value); err != nil || route.Metric < 0 {
					err = fmt.Errorf("metric %q", clip(value))
				}
			}
		case "state":
			switch strings.ToLower(value) {
			case "", "active":
			case "inactive":
				route.Inactive = true
			default:
				err = fmt.Errorf("state %q", clip(value))
			}
		case "name":
			route.Name = clip(value)
		}
		if err != nil {
			return TableRoute{}, err
		}
	}
	return route, nil
}

// shortCSVError keeps the place of a mistake.
func shortCSVError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("no CSV at line %d: %w", parse.Line, parse.Err)
	}
	return err
}

// linuxRoute is one entry of `ip -j route`.
type linuxRoute struct {
	linuxNextHop
	Type     string         `json:"type"`
	Dst      string         `json:"dst"`
	Protocol string         `json:"protocol"`
	Table    string         `json:"table"`
	Metric   int            `json:"metric"`
	NextHops []linuxNextHop `json:"nexthops"`
}

type linuxNextHop struct {
	Gateway string `json:"gateway"`
	Via     *struct {
		Host string `json:"host"`
	} `json:"via"`
	Dev   string   `json:"dev"`
	Flags []string `json:"flags"`
}

// down reports whether the kernel passes over the next hop.
func (h linuxNextHop) down() bool {
	return slices.Contains(h.Flags, "dead") || slices.Contains(h.Flags, "linkdown")
}

func (h linuxNextHop) address() string {
	if h.Gateway == "" && h.Via != nil {
		return h.Via.Host
	}
	return h.Gateway
}

// ParseLinuxRoutes reads what `ip -j route` or `ip -j -6 route` prints. Of `show
// table all` it takes the tables main and local: which other table applies is
// decided by rules that stand elsewhere. A route with several next hops keeps
// the first that is up.
//
// The word "default" says no address family; it is taken from the gateway, else
// such a route counts for both.
func ParseLinuxRoutes(r io.Reader) ([]TableRoute, error) {
	list, err := decodeList[linuxRoute](r)
	if err != nil {
		return nil, fmt.Errorf("reach: ip -j route: %w", err)
	}
	var routes []TableRoute
	var count counted
	for i, entry := range list {
		found, err := entry.routes()
		if err == nil {
			err = count.add(len(found))
		}
		if err != nil {
			return nil, fmt.Errorf("reach: ip -j route: entry %d: %w", i+1, err)
		}
		routes = append(routes, found...)
	}
	return routes, nil
}

func (in linuxRoute) routes() ([]TableRoute, error) {
	if in.Dst == "" {
		return nil, fmt.Errorf(`no "dst": this is no route`)
	}
	switch in.Table {
	case "", "main", "254", "local", "255":
	default:
		return nil, nil
	}
	route := TableRoute{Interface: clip(in.Dev), Metric: in.Metric, Inactive: in.down()}
	if in.Protocol != "" {
		// Not the words of other tables: on Linux only the metric decides.
		route.Source = "proto " + clip(in.Protocol)
	}
	gateway := in.address()
	if up := slices.IndexFunc(in.NextHops, func(h linuxNextHop) bool { return !h.down() }); up >= 0 {
		gateway, route.Interface = in.NextHops[up].address(), clip(in.NextHops[up].Dev)
	} else if len(in.NextHops) > 0 {
		route.Inactive = true
	}
	switch in.Type {
	case "", "unicast":
		route.Kind = hopLocal
		if gateway != "" {
			route.Kind = hopGateway
		}
	case "local", "anycast":
		route.Kind = hopLocal
	case "blackhole":
		route.Kind = hopNone
	case "unreachable", "throw":
		route.Kind = hopUnreachable
	case "prohibit":
		route.Kind = hopProhibit
	case "broadcast", "multicast":
		return nil, nil
	default:
		return nil, fmt.Errorf("type %q", clip(in.Type))
	}
	var err error
	if gateway != "" {
		if route.Address, err = parseHop(gateway); err != nil {
			return nil, err
		}
	}
	if in.Dst != "default" {
		route.Prefix, err = parsePrefix(in.Dst)
		return []TableRoute{route}, err
	}
	var both []TableRoute
	for _, any := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		// An IPv4 route may have an IPv6 next hop, but then it comes as "via".
		if in.Gateway != "" && route.Address.Is4() != any.Addr().Is4() || in.Via != nil && any.Addr().Is6() {
			continue
		}
		route.Prefix = any
		both = append(both, route)
	}
	return both, nil
}
