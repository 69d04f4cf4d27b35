package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/effectonce/effectonce/checker"
)

// reportFile is what the reports below a folder are called. A file that is named itself may be called anything.
const reportFile = "report.json"

// largest bounds what is read of one report. A history of a hundred thousand operations stays below it.
const largest = 64 << 20

// input is one report, or why there is none.
type input struct {
	path   string
	report checker.Report
	err    error
}

// read finds and reads the reports, each once, also where one folder lies in another.
func read(paths []string) []input {
	var all []input
	seen := map[string]bool{}
	add := func(in input) {
		if absolute, err := filepath.Abs(in.path); err == nil && in.err == nil {
			if seen[absolute] {
				return
			}
			seen[absolute] = true
		}
		if in.err == nil {
			in.report, in.err = load(in.path)
		}
		all = append(all, in)
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		switch {
		case err != nil:
			add(input{path: p, err: withoutPath(err)})
		case !info.IsDir():
			add(input{path: p})
		default:
			below(p, add)
		}
	}
	return all
}

// below adds every report below a folder; a folder without one is unusable, and not an empty pass.
func below(dir string, add func(input)) {
	found := false
	// DirFS, since WalkDir does not enter a folder that is given as a symbolic link.
	fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		switch {
		case err != nil:
			found = true
			add(input{path: path, err: withoutPath(err)})
			return fs.SkipDir
		case !d.IsDir() && d.Name() == reportFile:
			found = true
			add(input{path: path})
		}
		return nil
	})
	if !found {
		add(input{path: dir, err: errors.New("no " + reportFile + " below it")})
	}
}

func load(path string) (checker.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return checker.Report{}, withoutPath(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, largest+1))
	if err != nil {
		return checker.Report{}, withoutPath(err)
	}
	if len(text) > largest {
		return checker.Report{}, fmt.Errorf("longer than %d MiB", largest>>20)
	}
	return decode(text)
}

// decode refuses whatever it does not understand. The number of the schema comes first: what a newer one means by a
// field that is known here is not known.
func decode(text []byte) (checker.Report, error) {
	var head struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return checker.Report{}, fmt.Errorf("no JSON, or cut off: %w", err)
	}
	switch {
	case head.Schema == nil:
		return checker.Report{}, errors.New("no report: it has no schema number")
	case *head.Schema != checker.Schema:
		return checker.Report{}, fmt.Errorf("schema %d, and this gate reads %d; use the gate of the version that wrote it", *head.Schema, checker.Schema)
	}
	var r checker.Report
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return checker.Report{}, fmt.Errorf("no report of schema %d: %w", checker.Schema, err)
	}
	return r, plausible(&r)
}

// plausible refuses a report that contradicts itself: what wrote it is broken, and its verdict is worth nothing. A
// violation is believed in any case.
func plausible(r *checker.Report) error {
	c, e := r.Counts, r.Effects
	switch r.Verdict {
	case checker.Pass, checker.Undecided, checker.Inconclusive, checker.Violated:
	default:
		return fmt.Errorf("verdict %q, which is none", r.Verdict)
	}
	switch {
	case r.Store == "":
		return errors.New("it names no store")
	case r.Verdict == checker.Violated:
		return nil
	case r.Verdict == checker.Pass && (len(r.Reasons) > 0 || len(r.Missed) > 0 || r.Limit != ""):
		return errors.New("verdict pass, beside reasons, missed marks or a limit, which contradict it")
	case len(r.Reasons) > 0:
		return fmt.Errorf("verdict %s, beside a broken promise", r.Verdict)
	case min(c.Plans, c.Distinct, c.Operations, c.Takeovers, c.Faults, e.None, e.Once, e.More) < 0:
		return errors.New("a count is negative")
	case c.Distinct > c.Plans:
		return fmt.Errorf("%d distinct plans of %d", c.Distinct, c.Plans)
	}
	return nil
}

// withoutPath takes the file's name from an error that is shown behind it.
func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
