package registry

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Platform is what an image was built for. Variant is empty for "the usual one of this
// architecture".
type Platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"`
}

var platformRE = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}$`)

// ParsePlatform reads "os/architecture[/variant]", "linux/arm64/v8". The empty string means
// an image for this machine's architecture on linux, since nodes run Linux containers
// unless told otherwise; the variant of an ARM processor is then taken to be v7 and not
// looked up.
//
// An error names the input. Operating system and architecture must be ones that Go knows,
// as in containerd; the variant may be anything.
func ParsePlatform(s string) (Platform, error) {
	if s == "" {
		return Platform{OS: "linux", Architecture: runtime.GOARCH}.normal(), nil
	}
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.ContainsFunc(parts, func(p string) bool { return !platformRE.MatchString(p) }) {
		return Platform{}, fmt.Errorf("platform %q is not os/architecture[/variant]", classify.Redact(s, 128))
	}
	p := Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	p = p.normal()
	if !slices.Contains(knownOS, p.OS) || !slices.Contains(knownArch, p.Architecture) {
		return Platform{}, fmt.Errorf("platform %q is unknown", s)
	}
	return p, nil
}

// What containerd takes for a platform (github.com/containerd/platforms, database.go),
// short of what Go has dropped.
var (
	knownOS   = strings.Fields("aix android darwin dragonfly freebsd illumos ios js linux netbsd openbsd plan9 solaris wasip1 windows")
	knownArch = strings.Fields("386 amd64 arm arm64 loong64 mips mipsle mips64 mips64le ppc64 ppc64le riscv64 s390x sparc64 wasm")
)

// String returns os/architecture[/variant].
func (p Platform) String() string {
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// normal spells a platform as containerd compares it (github.com/containerd/platforms,
// database.go).
func (p Platform) normal() Platform {
	p.OS, p.Architecture, p.Variant = strings.ToLower(p.OS), strings.ToLower(p.Architecture), strings.ToLower(p.Variant)
	if p.OS == "macos" {
		p.OS = "darwin"
	}
	switch p.Architecture {
	case "i386":
		p.Architecture, p.Variant = "386", ""
	case "x86_64", "x86-64", "amd64":
		p.Architecture = "amd64"
		if p.Variant == "v1" {
			p.Variant = ""
		}
	case "aarch64", "arm64":
		p.Architecture = "arm64"
		switch p.Variant {
		case "8", "v8", "v8.0":
			p.Variant = ""
		case "9", "9.0", "v9.0":
			p.Variant = "v9"
		}
	case "armhf":
		p.Architecture, p.Variant = "arm", "v7"
	case "armel":
		p.Architecture, p.Variant = "arm", "v6"
	case "arm":
		switch p.Variant {
		case "", "7":
			p.Variant = "v7"
		case "5", "6", "8":
			p.Variant = "v" + p.Variant
		}
	}
	return p
}

// accepts returns the platforms that a node of platform p runs, best first, in the order of
// containerd's platforms.Only.
func (p Platform) accepts() []Platform {
	p = p.normal()
	out := []Platform{p}
	lower := func(arch string, from, to int) {
		for v := from; v >= to; v-- {
			out = append(out, Platform{OS: p.OS, Architecture: arch, Variant: "v" + strconv.Itoa(v)}.normal())
		}
	}
	switch p.Architecture {
	case "amd64":
		if v, err := strconv.Atoi(strings.TrimPrefix(p.Variant, "v")); err == nil && v <= 16 {
			lower("amd64", v-1, 1)
		}
		out = append(out, Platform{OS: p.OS, Architecture: "386"})
	case "arm":
		if v, err := strconv.Atoi(strings.TrimPrefix(p.Variant, "v")); err == nil && v <= 16 {
			lower("arm", v-1, 5)
		}
	case "arm64":
		if major, minor, ok := armVersion(p.Variant); ok {
			for m := minor - 1; m >= 0; m-- {
				out = append(out, armPlatform(p.OS, major, m))
			}
			if major == 9 { // v9.n is v8.(n+5) with more
				for m := minor + 5; m >= 0; m-- {
					out = append(out, armPlatform(p.OS, 8, m))
				}
			}
			lower("arm", 8, 5)
		}
	}
	return out
}

func armPlatform(os string, major, minor int) Platform {
	v := "v" + strconv.Itoa(major)
	if minor > 0 {
		v += "." + strconv.Itoa(minor)
	}
	return Platform{OS: os, Architecture: "arm64", Variant: v}.normal()
}

func armVersion(variant string) (major, minor int, ok bool) {
	if variant == "" {
		return 8, 0, true
	}
	a, b, dotted := strings.Cut(strings.TrimPrefix(variant, "v"), ".")
	major, err := strconv.Atoi(a)
	if err != nil || (major != 8 && major != 9) {
		return 0, 0, false
	}
	if dotted {
		if minor, err = strconv.Atoi(b); err != nil || minor < 0 || minor > 9 {
			return 0, 0, false
		}
	}
	return major, minor, true
}
