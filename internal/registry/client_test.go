package registry

import "net/http"

// How CRI-O and docker ask, in what the requests here depend on; internal/noderuntime
// has the whole.
var (
	likeCRIO = Client{
		Name: "CRI-O", Pings: true, Resolves: http.MethodGet, Token: WayGet, Returns: ReturnsNever,
		IgnoresTargets: true, ForeignSettings: true, ResumesResets: true,
	}
	likeDocker = Client{
		Name: "the docker engine", Pings: true, Token: WayGet, Returns: ReturnsAPI,
		IgnoresTargets: true, ForeignSettings: true, ResumesResets: true,
	}
)
