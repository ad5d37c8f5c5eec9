package endpoints

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// passedOver notes what lies in a host directory and is not in force: host tables
// that containerd does not see, and certificates that a hosts.toml beside them
// does not name.
func (rd *reader) passedOver(dir, file string, data []byte, sources []Source) {
	note := func(name, why string) {
		rd.ignored(name, why, classify.NodeRuntimeConfigIgnored)
		rd.findings[len(rd.findings)-1].Severity = classify.SeverityInfo
	}
	for _, h := range unseenHosts(data) {
		rd.ignored(file, fmt.Sprintf("the host %s is written as a dotted key or an inline table, which containerd passes over: it wants a [host.\"…\"] header", classify.Redact(h, 128)), classify.NodeRuntimeConfigIgnored)
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
			note(name, "it lies beside a hosts.toml that does not name it, and is not read")
		}
	}
}

// certFiles is the registry itself with the certificates of a directory.
func (rd *reader) certFiles(dir string) Source {
	s := Source{File: dir}
	rd.addCertFiles(&s, dir)
	return s.upstream(rd.ref)
}

// addCertFiles reads a directory in docker's layout: *.crt are roots, *.cert and
// *.key a client's pair.
func (rd *reader) addCertFiles(s *Source, dir string) {
	entries, err := fs.ReadDir(rd.fsys, inFS(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		rd.errs = append(rd.errs, fmt.Errorf("list %s: %w", dir, err))
	}
	for _, e := range entries[:min(len(entries), maxGlob)] {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
		case strings.HasSuffix(name, ".crt"):
			s.CAFiles = append(s.CAFiles, name)
		case strings.HasSuffix(name, ".cert"):
			pair := [2]string{name, strings.TrimSuffix(name, ".cert") + ".key"}
			if _, err := fs.Stat(rd.fsys, inFS(pair[1])); err != nil && rd.way == WayContainerd {
				pair[1] = "" // containerd looks for the key in the same file then
			}
			s.ClientFiles = append(s.ClientFiles, pair)
		}
	}
}

func (rd *reader) invalid(s Source, file, why string) {
	f := classify.New(classify.NodeRuntimeConfigInvalid,
		fmt.Sprintf("%s, which the settings for %s in %s name, %s; %s refuses every pull from %s because of it", file, s.Host, s.File, why, rd.way.Name(), rd.ref.Registry),
		classify.Fact{Key: classify.FactFile, Value: file})
	f.Endpoint = s.Host
	rd.findings = append(rd.findings, f)
}

// checkFiles reads the client's pairs. A pair that does not fit together stops
// the pull like one that is missing: the runtime loads it before it connects.
func (rd *reader) checkFiles(s *Source) {
	for _, pair := range s.ClientFiles {
		before := len(rd.errs)
		var parts [2][]byte
		missing := false
		for i, name := range pair {
			if name == "" {
				parts[i] = parts[0] // certificate and key in one file
				continue
			}
			data, ok := rd.read(name)
			if !ok && len(rd.errs) == before {
				rd.invalid(*s, name, "does not exist")
			}
			missing = missing || !ok
			parts[i] = data
		}
		if missing {
			continue
		}
		cert, err := tls.X509KeyPair(parts[0], parts[1])
		if err != nil {
			rd.invalid(*s, pair[0], "is with its key no usable pair ("+classify.Redact(err.Error(), 160)+")")
			continue
		}
		s.Certificates = append(s.Certificates, cert)
	}
}

// readCA reads the roots of one source.
func (rd *reader) readCA(s *Source) {
	for _, name := range s.CAFiles {
		before := len(rd.errs)
		data, ok := rd.read(name)
		switch {
		case !ok && len(rd.errs) > before: // unreadable from here, perhaps not for the runtime
		case !ok:
			rd.invalid(*s, name, "does not exist")
		case !hasCertificate(data):
			rd.invalid(*s, name, "holds no certificate")
		}
		s.CA = append(s.CA, data)
	}
}

// maxGlob bounds how many drop-in files are looked at.
const maxGlob = 256
