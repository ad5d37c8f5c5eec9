// Package dnscheck answers one question: what does the resolver of this node's
// container runtime get when it looks a name up, from whom, and after how long?
//
// A [Checker] reads the node's resolver settings, asks every nameserver on its
// own for A and for AAAA, and then replays over what it saw the rules by which
// the runtime's resolver chooses. Its zero value looks at this machine.
//
// # The rules
//
// containerd, CRI-O and the Docker engine are Go programs. The rules are those
// of Go's own resolver; the file it stands in is named with each (package net of
// Go 1.26).
//
//   - Only the first three nameserver lines count, and only those that hold an IP
//     address (dnsconfig_unix.go; the limit of three is resolv.conf(5), MAXNS).
//     What follows is never asked: dns.ignored-nameserver.
//   - No file, or no usable nameserver line: 127.0.0.1 and ::1 are asked
//     (dnsconfig_unix.go): dns.no-nameserver.
//   - 5 s for each exchange, two rounds over the list, ndots 1, unless "options"
//     says otherwise (dnsconfig_unix.go, resolv.conf(5)).
//   - NXDOMAIN is final, and so is an answer without a record of the type asked
//     for; no further nameserver is asked about that name and type. SERVFAIL,
//     REFUSED, any other code, silence and transport errors move on to the next
//     nameserver (dnsclient_unix.go, tryOneName; RFC 1035 section 4.1.1 for the
//     codes, RFC 2308 for the two kinds of negative answer).
//   - A and AAAA are asked at once and what comes is merged; one of the two is
//     enough. The lookup lasts as long as the slower of both.
//   - A truncated answer is asked for again over TCP (RFC 7766 section 5). When
//     TCP fails there, that nameserver has failed.
//   - A name with at least ndots dots is asked as it stands first, then with each
//     suffix of the search list; another one the other way round. The next name
//     is tried whenever the one before gave no address, for whatever reason; a
//     trailing dot switches the search off (dnsclient_unix.go, nameList).
//   - A datagram with another id, or that does not repeat the question, is ignored
//     and waited past (dnsclient_unix.go, checkResponse; RFC 5452): the report holds
//     it in [Exchange.Unmatched], and the runtime is left with silence.
//   - resolv.conf is looked at again every 5 s and read again when it has changed,
//     unless "options no-reload" stands in it (dnsclient_unix.go, tryUpdate).
//   - The hosts file comes first unless nsswitch.conf says otherwise; without
//     that file, or without a "hosts" line in it, the order is files, dns (conf.go,
//     nsswitch.conf(5)).
//
// A runtime that was built with cgo leaves the lookup to the C library when
// resolv.conf or nsswitch.conf holds a word that Go does not know (conf.go):
// [Settings.LeftToCLibrary]. Where the outcome or the time then differs,
// [Report.CLibrary] says how, after glibc's res_send.c and res_query.c: its timeout
// doubles from server to server and is divided by their number, silence in the
// search list ends the search, and mdns4_minimal keeps NAME.local from DNS. The
// musl library asks all nameservers at once and takes the first answer; it is not
// modelled.
//
// # Whose files
//
// Settings are read in the mount namespace of the runtime's process where that
// can be entered, else from the host's tree, see [SourcesAt]; [Settings.Source]
// says which, and the files passed over are [Settings.Views]. Where a stub of
// systemd-resolved or NetworkManager is asked, its state files name the servers
// behind it and the link that a domain belongs to: [Settings.Behind]. The kubelet's
// --resolv-conf is for pods and is not read. A search list that a kubelet wrote for
// a pod is recognised: dns.pod-resolver, since nothing seen then is evidence about
// the node.
//
// # Questions that only explain
//
// Some questions are asked that no runtime asks. They never change what the
// runtime is said to get, and are waited for at most one second longer:
//
//   - after silence over UDP, the same over TCP: a filter on the way lets one pass;
//   - after SERVFAIL, the same with the DNSSEC check switched off (RFC 4035 section
//     3.2.2): dns.dnssec-failed, and the aliases one by one: dns.cname-loop;
//   - when a search domain answered a name with a dot, the name itself, and one
//     random label below that domain: dns.search-capture;
//   - what is behind a stub, the name as it stands;
//   - Azure's platform resolver 168.63.129.16, a name of Azure's private link that
//     did not come out private, unless it is one of the nameservers anyway:
//     it tells a missing forwarder from a zone that is not linked. It answers inside
//     of Azure only; elsewhere its silence says nothing.
//
// # Private and public
//
// An alias or zone with the label "privatelink" is made for private endpoints, and
// leads to a public address only where the private zone is not seen:
// dns.public-answer. The same is said where another of the node's nameservers, or
// one behind the stub, knows a private address, and of a host whose sibling is
// private, see [CompareHosts]. A denial by such a zone is dns.private-zone-empty: it
// hides the public record too. All that is likely, not proven: somebody may want
// it so. [Checker.Expect] replaces the guess by what must be. The ranges for
// documentation count as public. What [Given.Judge] says comes from given settings
// alone.
//
// # What a report says
//
// An address from the hosts file never makes the report clean: DNS is asked all
// the same, and dns.hosts-override says whether it agrees. A nameserver that
// fails is a warning as long as the runtime gets its answer from another, and a
// failure only when the runtime would get nothing.
//
// Every nameserver is asked until it answers or until [Checker.Limit] ends, also
// those that the runtime would not reach, because a later pull may need them.
// A datagram that got no answer for 2 s is sent once more, since a single lost
// packet says nothing of a nameserver.
//
// # What is not proved
//
//   - The settings are those of the file tree that was given. A pod has its own
//     resolv.conf, written by the kubelet: what a pod's resolver answers says
//     nothing about the node, whose runtime does the pull.
//   - A nameserver on 127.0.0.0/8 or ::1 is usually a local forwarder. Its answer
//     is what the runtime gets. Servers behind it are found in the state files of
//     systemd-resolved and NetworkManager only, and are asked from here, not by it.
//   - Which C library a runtime uses, and whether it has cgo, is not looked at.
//   - The proxy of a pull resolves names itself; nothing here says what it gets.
//   - An address is what DNS says. Whether anything answers there, and whether the
//     node has a route or even that address family, is the matter of package
//     reach. The runtime also orders the addresses by its routes (RFC 6724); here
//     they stand IPv4 first, each family in the order of the answer.
//   - One moment was looked at. Caches, rotation ("options rotate") and loss make
//     another lookup come out differently.
package dnscheck
