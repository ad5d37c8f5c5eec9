package classify

// Layer unknown: not known, and nothing guessed. The owner is who can get the
// missing evidence, mostly from the runtime's journal on the node.
var unknownEntries = []Info{
	{
		Cause:      UnknownCanceledNoCause,
		Owner:      OwnerNode,
		Title:      "the pull was cancelled, and the text does not say why",
		Look:       "The runtime's journal at that minute: 'no progress in 5m0s' (bytes stopped flowing), pod deleted, runtime restarted. Then path and MTU to the blob host.",
		Remedy:     "Repair what the journal names. For lack of progress, find where the bytes stop: blob host, proxy, tunnel, or the node's disk.",
		NotFixedBy: "A longer progress timeout, before it is known why nothing moved. 'context canceled' is a consequence, there is nothing to repair in it.",
		Ref:        "https://github.com/containerd/containerd/blob/main/docs/cri/config.md",
	},
	{
		Cause:      UnknownDeadlineNoCause,
		Owner:      OwnerNode,
		Title:      "an overall deadline passed, and nothing says at what",
		Look:       "The runtime's log of this pull with its times per layer, and the image's size against the rate of one layer from this node.",
		Remedy:     "Probe the steps one by one (resolve, connect, TLS, first bytes, a whole layer) and repair the slow or silent one.",
		NotFixedBy: "A larger deadline as first measure: it does not tell slow from dead. A smaller image that succeeds may lie on other hosts.",
		Ref:        "https://kubernetes.io/docs/reference/command-line-tools-reference/kubelet/",
	},
	{
		Cause:      UnknownPullInProgress,
		Owner:      OwnerNode,
		Title:      "a pull has started, and its outcome is not in the text",
		Look:       "Later events of the pod (`kubectl get events --field-selector involvedObject.name=POD`), and bytes arriving on the node: `ctr -n k8s.io content active`.",
		Remedy:     "Wait for Pulled or Failed. If it lasts longer than size and bandwidth explain, treat it as a stalled download.",
		NotFixedBy: "Deleting the pod during the download: the next pull may begin anew. With serial pulls it may only be queued behind another image.",
		Ref:        "https://kubernetes.io/docs/concepts/containers/images/#serial-and-parallel-image-pulls",
	},
	{
		Cause:      UnknownRequestDeadlineNoStage,
		Owner:      OwnerNode,
		Title:      "one request ran out of time, and the text names no stage",
		Look:       "The printed host, from the node, stage by stage: lookup, each address, handshake, time to the first header, one whole layer.",
		Remedy:     "Act on the first stage that does not hold; the text alone cannot choose between them.",
		NotFixedBy: "Treating it as a slow registry: a dropped SYN or a silent resolver prints the same. A second look from your laptop takes another path.",
		Ref:        "https://pkg.go.dev/net/http#Client",
		Refines:    UnknownDeadlineNoCause,
	},
	{
		Cause:      UnknownTruncatedNoCause,
		Owner:      OwnerNode,
		Title:      "the text ends before the cause",
		Look:       "The whole message: `kubectl get events -o json`, or the runtime's journal on the node. Describe output, dashboards and chats shorten it.",
		Remedy:     "Get the complete text and read that; the cause stands at its right end.",
		NotFixedBy: "Acting on the left part: it names image and wrappers, the same for every fault. The next back-off event: it repeats no cause.",
		Ref:        "https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/",
	},
	{
		Cause:      UnknownUnclassified,
		Owner:      OwnerNode,
		Title:      "nothing was recognised, and nothing guessed",
		Look:       "The original error in full, and the runtime's journal around it. The probes need no text: run them from the node.",
		Remedy:     "Act on the first layer that a probe sees fail, and report the text so that it gets a code.",
		NotFixedBy: "Taking the code that looks nearest: its remedy is for another fault. A restart after which it is gone leaves the cause in place.",
		Ref:        "https://kubernetes.io/docs/tasks/debug/debug-cluster/crictl/",
	},
}
