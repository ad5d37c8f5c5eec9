package main

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// daemonSet is what of a DaemonSet is asked for here.
type daemonSet struct {
	Kind string
	Spec struct {
		Template struct {
			Spec struct {
				HostNetwork, HostPID, HostIPC bool
				AutomountServiceAccountToken  *bool
				ServiceAccountName            string
				NodeSelector                  map[string]string
				Tolerations                   []map[string]string
				Containers                    []container
				InitContainers                []container
				Volumes                       []struct {
					Name     string
					HostPath *struct{ Path string }
					Secret   *struct{ SecretName string }
				}
			}
		}
	}
}

type container struct {
	Args  []string
	Image string
	Env   []struct {
		Name, Value string
		ValueFrom   struct{ FieldRef struct{ FieldPath string } }
	}
	Ports           []struct{ ContainerPort, HostPort int }
	SecurityContext struct {
		Privileged               bool
		AllowPrivilegeEscalation *bool
		ReadOnlyRootFilesystem   bool
		SeccompProfile           struct{ Type string }
		Capabilities             struct{ Add, Drop []string }
	}
	Resources    struct{ Requests, Limits map[string]string }
	VolumeMounts []struct {
		Name, MountPath, MountPropagation, RecursiveReadOnly string
		ReadOnly                                             bool
	}
}

// The manifest asks for what the agent needs, and for nothing else.
func TestManifest(t *testing.T) {
	raw, err := os.ReadFile("daemonset.yaml")
	require.NoError(t, err)
	docs := bytes.Split(raw, []byte("\n---\n"))
	require.Len(t, docs, 2)
	var ds daemonSet
	require.NoError(t, yaml.Unmarshal(docs[1], &ds))
	require.Equal(t, "DaemonSet", ds.Kind)
	pod := ds.Spec.Template.Spec

	require.True(t, pod.HostNetwork, "else it looks from another network than the node's")
	require.False(t, pod.HostPID || pod.HostIPC)
	require.NotNil(t, pod.AutomountServiceAccountToken)
	require.False(t, *pod.AutomountServiceAccountToken, "it asks the cluster nothing")
	require.Equal(t, []map[string]string{{"operator": "Exists"}}, pod.Tolerations, "a pool with a taint breaks like any other")
	require.Equal(t, map[string]string{"kubernetes.io/os": "linux"}, pod.NodeSelector)

	require.Empty(t, pod.InitContainers)
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	sc := c.SecurityContext
	require.False(t, sc.Privileged)
	require.NotNil(t, sc.AllowPrivilegeEscalation)
	require.False(t, *sc.AllowPrivilegeEscalation)
	require.True(t, sc.ReadOnlyRootFilesystem)
	require.Equal(t, "RuntimeDefault", sc.SeccompProfile.Type)
	require.Equal(t, []string{"ALL"}, sc.Capabilities.Drop)
	require.Equal(t, []string{"SYS_PTRACE"}, sc.Capabilities.Add)
	require.NotEmpty(t, c.Resources.Limits["memory"])
	require.Empty(t, c.Resources.Limits["cpu"], "a throttled probe measures itself")

	hostPaths := 0
	for _, v := range pod.Volumes {
		if v.HostPath == nil {
			require.NotNil(t, v.Secret)
			continue
		}
		hostPaths++
		require.Equal(t, "/proc", v.HostPath.Path)
	}
	require.Equal(t, 1, hostPaths)
	for _, m := range c.VolumeMounts {
		require.True(t, m.ReadOnly, m.Name)
		require.Empty(t, m.MountPropagation, m.Name)
	}

	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = cmp.Or(e.Value, e.ValueFrom.FieldRef.FieldPath)
	}
	require.Regexp(t, `@sha256:[0-9a-f]{64}$`, c.Image)
	require.Equal(t, "128Mi", c.Resources.Limits["memory"])
	require.Equal(t, map[string]string{"GOMEMLIMIT": "100MiB", "NODE_NAME": "spec.nodeName", "NODE_IP": "status.hostIP"}, env)
	require.Equal(t, c.Ports[0].ContainerPort, c.Ports[0].HostPort)

	// Every flag is one, and what it names is mounted.
	var help bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-h"}, &help, &help))
	for _, arg := range c.Args {
		name, value, _ := strings.Cut(arg, "=")
		require.Contains(t, help.String(), "\n  "+name+" ", arg)
		if strings.HasPrefix(value, "/") {
			require.True(t, slices.ContainsFunc(c.VolumeMounts, func(m struct {
				Name, MountPath, MountPropagation, RecursiveReadOnly string
				ReadOnly                                             bool
			}) bool {
				return strings.HasPrefix(value, m.MountPath+"/")
			}), arg)
		}
	}
}
