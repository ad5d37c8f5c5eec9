package classify

// Layer registry: the registry service itself works.
var registryEntries = []Info{
	{Cause: RegistryClientError, Owner: OwnerRegistryAdmin, Title: "the registry rejected the request as wrong", Ref: "https://www.rfc-editor.org/rfc/rfc9110.html#section-15.5",
		Look:       "Status and body (400, 405, 406, 409, 416) and the registry's or mirror's log for the same request. A mirror URL whose path is doubled or missing (`override_path`) is typical.",
		Remedy:     "Correct what the status names: path of the mirror entry, virtual host, Accept or Range handling of the proxy in front; or update the registry.",
		NotFixedBy: "Retries: this answer is the same each time. Roles and secrets: a lack of rights has codes of its own, 401 and 403."},
	{Cause: RegistryMirrorMiss, Owner: OwnerNode, Refines: ImageNotFound, Title: "the mirror does not have the image, so the fallback is the real pull", Ref: "https://github.com/containerd/containerd/blob/main/docs/hosts.md",
		Look:       "What the fallback answered: containerd 2.x may print the mirror's 404 although the upstream timed out. Test the upstream from the node, and the mirror with `curl 'https://MIRROR/v2/REPO/manifests/TAG?ns=UPSTREAM'`.",
		Remedy:     "Give the node a working way to the upstream, or bring the image into the mirror before it is needed.",
		NotFixedBy: "Pushing the image again: it may be there, behind a path that fails. Correcting the spelling, before you know which of the two hosts said 'not found'."},
	{Cause: RegistryPolicyBlocked, Owner: OwnerRegistryAdmin, Title: "the registry's content policy forbids this image", Ref: "https://www.rfc-editor.org/rfc/rfc9110.html#section-15.5.13",
		Look:       "The message in the body (severity of vulnerabilities, missing signature, quarantine) and the policy of the project in the registry.",
		Remedy:     "Rebuild on a patched base and push, sign the image in the pipeline, or get a dated exemption from the policy's owner.",
		NotFixedBy: "A stronger role: the policy binds every identity. Another tag for the same digest: same content, same verdict."},
	{Cause: RegistryRateLimited, Owner: OwnerRegistryAdmin, Title: "the registry limits the rate of requests", Ref: "https://learn.microsoft.com/azure/container-registry/container-registry-skus",
		Look:       "Body and ratelimit headers: whose limit, per account or per address? All nodes behind one NAT address are one client; a cache may name its own upstream as the limiter.",
		Remedy:     "Authenticate (on an ACR cache rule: a credential set), pull through a cache, raise the tier, and start rollouts in smaller steps.",
		NotFixedBy: "Deleting pods: each retry counts as well. New nodes behind the same NAT address draw on the same budget."},
	{Cause: RegistryServerError, Owner: OwnerRegistryAdmin, Title: "the registry or its blob host answered that it failed", Ref: "https://www.rfc-editor.org/rfc/rfc9110.html#section-15.6",
		Look:       "Which host answered 5xx: not always the image's, localhost is a mirror on the node. Then its health page and log for the correlation id. An old Harbor says 500 to a malformed name.",
		Remedy:     "Repair the failing part (storage full, database, token signing, a backend behind the balancer), or give the provider the correlation id.",
		NotFixedBy: "New secrets or new nodes: the server failed after taking the request. Another tag of the same registry meets the same fault."},
	{Cause: RegistryUpstreamFailed, Owner: OwnerRegistryAdmin, Refines: RegistryServerError, Title: "the caching registry could not fetch from its own upstream", Ref: "https://learn.microsoft.com/azure/container-registry/container-registry-artifact-cache",
		Look:       "The cache's side: health of the ACR cache rule's credential set, state of the Artifactory or Nexus remote repository, the cache's own egress and its log.",
		Remedy:     "Renew the credential for the upstream, open the cache's egress, or take the remote repository back online.",
		NotFixedBy: "Routes and firewall of the node: it reached the cache, the cache is stuck. The workload's pull secret is not passed on to the upstream."},
}
