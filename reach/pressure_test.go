package reach_test

import (
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

func proc(change map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	files := map[string]string{
		"proc/sys/net/netfilter/nf_conntrack_count": "1000\n",
		"proc/sys/net/netfilter/nf_conntrack_max":   "262144\n",
		"proc/1/net/stat/nf_conntrack":              "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error\n000003e8  0 0 0 0 0 0 0 0 00000001 00000010 00000000 0\n000003e8  0 0 0 0 0 0 0 0 00000000 00000002 0000000a 0\n",
		"proc/sys/net/ipv4/ip_local_port_range":     "32768\t60999\n",
		"proc/sys/net/ipv4/ip_local_reserved_ports": "40000-40031,50000\n",
		"proc/1/net/sockstat":                       "sockets: used 300\nTCP: inuse 120 orphan 1 tw 30 alloc 140 mem 20\nUDP: inuse 4 mem 2\n",
		"proc/1/net/netstat":                        "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPReqQFullDrop TCPSynRetrans\nTcpExt: 0 3 4 5 6\nIpExt: InNoRoutes\nIpExt: 0\n",
		"proc/1/net/snmp":                           "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm RetransSegs MaxConn\nTcp: 1 77 -1\n",
	}
	for name, text := range change {
		files[name] = text
	}
	for name, text := range files {
		if text != "" {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return tree
}

func TestPressure(t *testing.T) {
	t.Parallel()
	p := reach.CheckPressure(proc(nil))
	assert.Equal(t, &reach.Pressure{
		ConntrackCount: 1000, ConntrackMax: 262144, ConntrackDrops: 29, Ports: 28232, PortsReserved: 33,
		TCPInUse: 120, TCPTimeWait: 30, TCPOrphans: 1, ListenDrops: 4, RequestDrops: 5, SYNRetransmits: 6, Retransmits: 77,
	}, p)
	assert.Empty(t, p.Findings())

	for count, want := range map[string]classify.Severity{"235930": classify.SeverityWarn, "262144": classify.SeverityFail, "300000": classify.SeverityFail} {
		found := reach.CheckPressure(proc(map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": count})).Findings()
		require.Len(t, found, 1, count)
		assert.Equal(t, classify.RoutePressure, found[0].Cause)
		assert.Equal(t, want, found[0].Severity)
	}
	found := reach.CheckPressure(proc(map[string]string{"proc/1/net/sockstat": "TCP: inuse 28000 orphan 0 tw 9000 alloc 1 mem 1\n"})).Findings()
	require.Len(t, found, 1)
	assert.Equal(t, classify.SeverityWarn, found[0].Severity)
}

func TestPressureSince(t *testing.T) {
	t.Parallel()
	before := reach.CheckPressure(proc(nil))
	after := reach.CheckPressure(proc(map[string]string{"proc/1/net/netstat": "TcpExt: ListenDrops TCPReqQFullDrop\nTcpExt: 9 5\n"}))
	found := after.Since(before)
	require.Len(t, found, 1)
	assert.Contains(t, found[0].Summary, "dropped 5 connections")
	assert.Empty(t, before.Since(after), "counters that went back")
	assert.Empty(t, before.Since(nil))
}

func TestPressureOfStrangeFiles(t *testing.T) {
	t.Parallel()
	p := reach.CheckPressure(fstest.MapFS{})
	assert.NotEmpty(t, p.Inconclusive)
	assert.Len(t, p.Unread, 8)
	assert.Empty(t, p.Findings())

	p = reach.CheckPressure(proc(map[string]string{
		"proc/sys/net/netfilter/nf_conntrack_count": "-4", "proc/sys/net/netfilter/nf_conntrack_max": "", "proc/1/net/stat/nf_conntrack": "drop\nzz\n",
		"proc/sys/net/ipv4/ip_local_port_range": "9 1", "proc/sys/net/ipv4/ip_local_reserved_ports": "x", "proc/1/net/sockstat": "TCP: inuse x\n",
		"proc/1/net/netstat": "TcpExt: ListenDrops\nTcpExt: many\n", "proc/1/net/snmp": "Tcp:\n",
	}))
	assert.NotEmpty(t, p.Inconclusive)
	assert.Empty(t, p.Findings())
}

func TestPressureOfThisMachine(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has these files")
	}
	assert.Positive(t, reach.CheckPressure(nil).Ports)
}

func FuzzPressure(f *testing.F) {
	for name, file := range proc(nil) {
		f.Add(name, file.Data)
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		p := reach.CheckPressure(proc(map[string]string{name: string(data)}))
		if p.ConntrackCount < 0 || p.ConntrackDrops < 0 || p.Ports < 0 || p.PortsReserved < 0 || p.TCPInUse < 0 {
			t.Fatalf("%+v", p)
		}
		p.Findings()
		p.Since(&reach.Pressure{})
	})
}
