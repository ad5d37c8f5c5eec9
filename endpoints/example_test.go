package endpoints_test

import (
	"context"
	"fmt"

	"github.com/pullwalk/pullwalk/endpoints"
)

// The zero Checker asks this machine's network; an image that is none is the only kind of
// error.
func ExampleChecker_Check() {
	_, err := (&endpoints.Checker{}).Check(context.Background(), "https://registry.corp.test/team/app")
	fmt.Println(err)
	// Output:
	// image.invalid-reference: "https://registry.corp.test/team/app" is not an image reference: it has a URL scheme, which an image reference never has
}
