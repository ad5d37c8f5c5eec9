package pull

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pullwalk/pullwalk/internal/registry"
)

// A download of many layers may take longer than a token lives. The runtime
// fetches another; so do we, once for all who wait.
func TestATokenIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fetched := 0
		b := newBearer("Bearer first")
		b.until(registry.TokenResult{ExpiresIn: 20 * time.Second})
		b.renew = func(context.Context) registry.TokenResult {
			fetched++
			time.Sleep(time.Second)
			return registry.TokenResult{HasToken: true, Token: registry.NewToken("second")}
		}
		assert.Equal(t, "Bearer first", b.current(t.Context(), ""))
		time.Sleep(21 * time.Second)
		got := make(chan string, 3)
		for range 3 {
			go func() { got <- b.current(t.Context(), "") }()
		}
		for range 3 {
			assert.Equal(t, "Bearer second", <-got)
		}
		assert.Equal(t, 1, fetched)
		time.Sleep(59 * time.Second)
		assert.Equal(t, 2, func() int { b.current(t.Context(), "Bearer second"); return fetched }(), "refused before its time")
		time.Sleep(61 * time.Second)
		b.current(t.Context(), "")
		assert.Equal(t, 3, fetched, "a life that is not told is a minute")
	})
}

func TestWhatCannotBeRenewed(t *testing.T) {
	t.Parallel()
	var none *bearer
	assert.Empty(t, none.current(t.Context(), ""), "anonymous")
	basic := newBearer("Basic eDp5")
	assert.Equal(t, "Basic eDp5", basic.current(t.Context(), "Basic eDp5"))
	refusing := newBearer("Bearer old")
	refusing.renew = func(context.Context) registry.TokenResult { return registry.TokenResult{} }
	assert.Equal(t, "Bearer old", refusing.current(t.Context(), "Bearer old"))
}
