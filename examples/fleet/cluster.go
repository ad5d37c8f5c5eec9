package main

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const apiLimit = 30 * time.Second // of one request to the cluster

// connect finds the cluster as kubectl does.
func connect(kubeconfig, cluster string) (kubernetes.Interface, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: cluster})
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, "", err
	}
	config.Timeout = apiLimit
	config.UserAgent = "pullwalk-fleet"
	config.WarningHandler = rest.NoWarnings{} // stderr is for the progress
	client, err := kubernetes.NewForConfig(config)
	return client, namespace, err
}

// apiError says what the cluster refused, and to whom.
func apiError(err error) string {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsForbidden(err):
		return "forbidden (rbac.yaml says what is needed): " + shown(err.Error())
	case apierrors.IsUnauthorized(err):
		return "the cluster does not know who asks"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.As(err, &status):
		return shown(err.Error())
	}
	return shown("the cluster does not answer: " + err.Error())
}
