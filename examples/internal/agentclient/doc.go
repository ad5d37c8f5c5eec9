// Package agentclient asks the agent (examples/agent) of a node what a pull from
// there meets. The controller and fleet examples share it. It takes no answer on
// trust: an agent runs on a node that may be broken or owned by somebody else.
package agentclient
