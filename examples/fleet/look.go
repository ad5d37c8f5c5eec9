package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/pullwalk/pullwalk"
)

// look answers the question. The error is about the workload itself; whatever else
// cannot be seen is open in the report.
func look(ctx context.Context, s settings, c kubernetes.Interface, agents asker, progress func(string)) (*report, error) {
	w, err := getWorkload(ctx, c, s.namespace, s.kind, s.name)
	if err != nil {
		return nil, err
	}
	rep := &report{Schema: reportSchema, Workload: s.kind + "/" + s.name, Namespace: s.namespace, Pull: pullwalk.Touch}
	if s.complete {
		rep.Pull = pullwalk.Complete
	} else {
		rep.Open = append(rep.Open, "no complete download was asked for (-complete=false), and nothing else proves")
	}
	images, never := w.images()
	for _, image := range never {
		rep.Notes = append(rep.Notes, shown(image)+" is never pulled (imagePullPolicy Never), and was not asked for")
	}
	if len(s.images) > 0 {
		images = s.images
		rep.Notes = append(rep.Notes, "the images of the workload were not asked for, only those of -image")
	}
	if len(images) == 0 {
		return nil, invalidQuestion{fmt.Errorf("%v pulls no image", w)}
	}
	if err := checkImages(images); err != nil {
		return nil, invalidQuestion{fmt.Errorf("%v: %w", w, err)}
	}
	nodes, err := listNodes(ctx, c)
	if err != nil {
		nodes = nil // half of them would pass for all
		rep.Open = append(rep.Open, "which pools there are is not known: nodes cannot be listed: "+apiError(err))
	}
	pools, apart, unlabelled := sortPools(w.pod, nodes, s.poolLabels, s.pools)
	rep.Apart = apart
	if unlabelled > 0 {
		rep.Notes = append(rep.Notes, count(unlabelled, "node")+" without a label that names a pool (-pool-label): each counts as a pool of its own")
	}
	creds := workloadCredentials(ctx, c, w, s.pullSecrets)
	if creds.note != "" {
		rep.Notes = append(rep.Notes, creds.note)
	}
	seen := sight{images: images, pools: pools, unsent: creds.unsent, unasked: "stopped before one of its nodes was asked"}
	found, err := agentsByNode(ctx, c, s.agentNamespace, uint16(s.agentPort))
	switch {
	case err != nil:
		seen.unasked = "where agents run is not known"
		rep.Open = append(rep.Open, seen.unasked+": pods in "+s.agentNamespace+" cannot be listed: "+apiError(err))
	case len(found) == 0:
		seen.unasked = "there is no agent to ask"
		rep.Open = append(rep.Open, "no agent runs in the namespace "+s.agentNamespace+" ("+agentSelector+")")
	default:
		q := question{
			images: images, pull: rep.Pull, budget: s.budget, secrets: creds.secrets,
			perPool: s.perPool, parallel: s.parallel, agents: found, client: agents, progress: progress,
		}
		seen.outcomes = q.ask(ctx, pools)
	}
	if ctx.Err() != nil {
		rep.Notes = append(rep.Notes, "stopped: "+shown(context.Cause(ctx).Error()))
	}
	rep.sum(seen)
	return rep, nil
}
