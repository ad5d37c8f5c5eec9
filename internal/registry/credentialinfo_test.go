package registry

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func refresh(issued, expires time.Time) string {
	claims, _ := json.Marshal(map[string]any{"iat": issued.Unix(), "exp": expires.Unix()})
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
}

func TestLifetime(t *testing.T) {
	t.Parallel()
	issued, expires := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC).Add(3*time.Hour)
	ecr := base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf(`{"payload":"x","version":"2","type":"DATA_KEY","expiration":%d}`, expires.Unix())))
	for _, tt := range []struct {
		secret          string
		issued, expires time.Time
	}{
		{refresh(issued, expires), issued, expires},
		{ecr, time.Time{}, expires},
		{"s3cr3t", time.Time{}, time.Time{}},
		{"", time.Time{}, time.Time{}},
		{"a.b.c", time.Time{}, time.Time{}},
		{"e30.e30.e30", time.Time{}, time.Time{}},
		{refresh(time.Unix(1, 0), time.Unix(1<<60, 0)), time.Time{}, time.Time{}},
		{strings.Repeat("x", maxSecret+1), time.Time{}, time.Time{}},
	} {
		i, e := lifetime(tt.secret)
		assert.True(t, tt.issued.Equal(i), tt.secret)
		assert.True(t, tt.expires.Equal(e), tt.secret)
	}
}

func FuzzLifetime(f *testing.F) {
	f.Add(refresh(time.Unix(1e9, 0), time.Unix(1e9, 0).Add(time.Hour)))
	f.Add("e30.eyJleHAiOjFlOTk5fQ.x")
	f.Add("bnVsbA==")
	f.Fuzz(func(t *testing.T, secret string) {
		issued, expires := lifetime(secret)
		for _, at := range []time.Time{issued, expires} {
			if !at.IsZero() && (at.Year() < 2000 || at.Year() > 2200) {
				t.Fatalf("an impossible time: %v", at)
			}
		}
		_ = Credential{Username: secret, Password: secret}.Info("keychain")
	})
}
