package classify

// Info is what the catalogue knows of a cause, whatever the case at hand.
type Info struct {
	Cause      Cause
	Layer      Layer
	Owner      Owner
	Title      string // a short clause: what is wrong
	Look       string // where to look first
	Remedy     string // what repairs it, least invasive first
	NotFixedBy string // what people try, and why it cannot help
	Ref        string // the official document, a URL
	Refines    Cause  // the coarser code that a text alone can show; "" = none
}

// Lookup returns what the catalogue knows of c.
func Lookup(c Cause) (Info, bool) {
	return Info{}, false
}

// Catalogue returns every entry, by layer, then by code. The slice is the
// caller's own.
func Catalogue() []Info { return nil }
