package classify

import "strings"

// imageIn returns the image reference that the text names, "" if none.
func imageIn(text string) string {
	var p piece
	p.s, p.lower = text, asciiLower(text)
	theLexicon().scan(text, &p.words)
	return p.image()
}

// image returns the image reference that the text names, "" if none. A quoted
// one is surer than a word.
func (p *piece) image() string {
	if !p.words.anyOf(imageTable()) {
		return ""
	}
	for i, marker := range imageMarkers {
		at := p.index(marker)
		if at < 0 {
			continue
		}
		rest := p.s[at+len(marker):]
		if i < quotedMarkers {
			rest = rest[:min(len(rest), 1025)]
			end := strings.IndexByte(rest, '"')
			if open := strings.Index(rest, ": "); open > 0 && (end < 0 || open < end) {
				end = open // the quote never closes, or far behind
			}
			if end > 0 {
				return cleanImage(rest[:end])
			}
			continue
		}
		end := strings.IndexAny(rest[:min(len(rest), 1024)], " \n\t,\"")
		if end < 0 {
			end = min(len(rest), 1024)
		}
		ref := strings.TrimRight(rest[:end], ":,.")
		if marker != "docker://" && !strings.ContainsAny(ref, "/:") {
			continue // a word, not a reference
		}
		return cleanImage(ref)
	}
	return ""
}

// cleanImage joins a reference that a terminal wrapped, and refuses what cannot
// be one.
func cleanImage(ref string) string {
	if plainReference(ref) {
		return ref
	}
	if strings.ContainsAny(ref, " \n\t\r\u2502") {
		ref = strings.Join(strings.FieldsFunc(ref, func(r rune) bool { return r <= ' ' || r == '\u2502' }), "")
	}
	if len(ref) > 512 || strings.ContainsAny(ref, "\"'(){}[]?") {
		return ""
	}
	return Redact(ref, 512)
}

// plainReference reports whether ref has only what a reference without a digest
// is made of, so that no secret has a form in it.
func plainReference(ref string) bool {
	for i := range len(ref) {
		if c := ref[i]; !isSchemeByte(c) && c != '/' && c != ':' && c != '_' {
			return false
		}
	}
	return len(ref) <= 512 && nextToken(ref, 0) < 0 && !strings.Contains(ref, "eyJ") && !strings.Contains(ref, "://") && !strings.Contains(ref, "uthorization") && !strings.Contains(ref, "UTHORIZATION")
}

// imageHost returns the registry host that a reference names in so many words,
// "" for a short name.
func imageHost(ref string) string {
	host, _, ok := strings.Cut(ref, "/")
	if !ok || !(strings.ContainsAny(host, ".:") || host == "localhost") || strings.ContainsAny(host, " <>@") {
		return ""
	}
	// The runtimes have this one name built in: references say docker.io, and
	// requests go to registry-1 (containerd's DefaultHost, CRI-O's library too).
	if host == "docker.io" || host == "index.docker.io" {
		return "registry-1.docker.io"
	}
	return host
}

// canonicalImage writes out what a short reference leaves to docker's defaults.
func canonicalImage(ref string) string {
	host, rest, ok := strings.Cut(ref, "/")
	if !ok || (!strings.ContainsAny(host, ".:") && host != "localhost") {
		host, rest = "docker.io", ref
	}
	if host == "index.docker.io" {
		host = "docker.io"
	}
	if host == "docker.io" && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	if name := rest[strings.LastIndexByte(rest, '/')+1:]; !strings.ContainsAny(name, ":@") {
		rest += ":latest"
	}
	return host + "/" + rest
}

// SameImage reports whether two references name the same image: registry,
// repository, and tag or digest, with what a short reference leaves to docker's
// defaults written out. A tag and a digest are never the same.
func SameImage(a, b string) bool { return canonicalImage(a) == canonicalImage(b) }

// pauseImage reports whether a reference names the pod sandbox's image, by the
// name that it has everywhere.
func pauseImage(ref string) bool {
	name := ref[strings.LastIndexByte(ref, '/')+1:]
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimPrefix(name, "mirrored-")
	for _, arch := range [...]string{"-amd64", "-arm64", "-arm", "-ppc64le", "-s390x", "-windows"} {
		name = strings.TrimSuffix(name, arch)
	}
	return name == "pause"
}
