package reach

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ParseCSVRoutes reads routes in the plain form that any other source can be
// brought into. The first line names the columns, in any order: "prefix" and
// "hop" (one of the HopKind words) are needed, "address", "interface", "source",
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
		switch name {
		case "prefix", "hop", "address", "interface", "source", "metric", "state", "name":
		default:
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
			route.Kind = HopKind(strings.ToLower(value))
			switch route.Kind {
			case HopNone, HopInternet, HopLocal, HopPeering, HopGateway, HopAppliance, HopEndpoint, HopUnreachable, HopProhibit:
			default:
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
