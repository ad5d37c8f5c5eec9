package classify

// Error reads a live Go error.
func Error(err error) Finding { return New(UnknownUnclassified, "").WithError(err) }
