package main

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/effectonce/effectonce/checker"
)

func hostile() []string {
	return []string{
		"# pass", "\n# pass\n", "\r# pass", "\n\n| memory | pass |", "a | b", `a \| b`, `a \`, `\`, "`", "``", " ` ", "a`b``c```d",
		"```\n# pass\n```", "````\n~~~\n# pass", "~~~", "<h1>pass</h1>", "</code><h1>pass</h1>", "<!--", "-->", "<details>", "</table>",
		"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt;", "&#96;", "[pass](https://example.com)", "![x](https://example.com/x.png)",
		"https://example.com", "www.example.com", "@somebody", "a@example.com", "#12", "$x$", "**pass**", "__pass__", "~~pass~~",
		"\x1b[2J\x1b[H", "\x1b]0;pass\a", "\u202epass\u202c", "\u200b", "\u2028# pass", "\u0085# pass", "\x00", "\xff\xfe", "\ufffd", "\ufeff", " ", "  a  ", "\t",
		strings.Repeat("x", 100_000), strings.Repeat("`", 1000), strings.Repeat("line\n", 10_000), "::error::pass", "  ::set-output name=x::y", "a ##[error]pass",
	}
}

func TestAWordStaysAWord(t *testing.T) {
	span := regexp.MustCompile("^`[^`|\\\\]+`$")
	entities := regexp.MustCompile(`^<code>(?:[\pL\pM\pN\pS\pP ]|&#\d+;)*</code>$`)
	for _, s := range append(hostile(), "") {
		w := word(s)
		body := strings.TrimSuffix(strings.TrimPrefix(w, "<code>"), "</code>")
		switch {
		case w == "-" && s == "":
		case span.MatchString(w):
		case entities.MatchString(w) && !strings.ContainsAny(body, "<>|`\\*_[]@:"):
		default:
			t.Errorf("%q became %q", s, w)
		}
		if strings.ContainsFunc(w, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q became %q, which does not print", s, w)
		}
		if len(w) > 10*wordAtMost {
			t.Errorf("a word of %d bytes has become one of %d", len(s), len(w))
		}
	}
}

func TestABlockEndsWhereItShould(t *testing.T) {
	for _, s := range hostile() {
		for _, text := range []string{s, s + "\n", "before\n" + s + "\nafter"} {
			lines := strings.Split(strings.TrimSuffix(fenced(text), "\n"), "\n")
			fence := lines[len(lines)-1]
			if strings.Trim(fence, "`") != "" || len(fence) < 3 || lines[0] != fence+"text" {
				t.Fatalf("%q has no fences: %q", text, lines)
			}
			if len(lines) > linesAtMost+3 {
				t.Errorf("%d lines of a text of %d bytes", len(lines), len(text))
			}
			for _, line := range lines[1 : len(lines)-1] {
				if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
					t.Errorf("%q: the line %q is a command to a runner", text, line)
				}
				if strings.Contains(line, fence) {
					t.Errorf("%q: the line %q ends the block", text, line)
				}
				if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%q: the line %q does not print", text, line)
				}
			}
		}
	}
}

// TestNoTextChangesTheSummarysShape puts a hostile text in every field of a report, and into its path, and compares
// what is left of the summary without the places where a text belongs.
func TestNoTextChangesTheSummarysShape(t *testing.T) {
	shape := func(r checker.Report, v checker.Verdict, s string) string {
		fill(&r, s)
		r.Verdict, r.Schema = v, checker.Schema
		p := policy{require: []string{"redis"}, promised: []string{"NoLostEffect"}}
		judged := p.judge([]input{{path: s, report: r}, {path: s, err: errors.New(s)}})
		return withoutText(judged.markdown())
	}
	for _, verdict := range []checker.Verdict{checker.Violated, checker.Undecided, checker.Inconclusive, checker.Pass} {
		want := shape(broken(t, "shop"), verdict, "harmless")
		if !strings.Contains(want, "| TEXT | TEXT |") || !strings.Contains(want, "- TEXT") {
			t.Fatalf("no shape is left:\n%s", want)
		}
		for _, s := range hostile() {
			if got := shape(broken(t, "shop"), verdict, s); got != want {
				t.Errorf("%q changed the summary to\n%s\nfrom\n%s", s, got, want)
			}
		}
	}
}

// withoutText puts one word where a span, an element or a block holds text, as a renderer would find them: blocks
// first, then spans within a line.
func withoutText(markdown string) string {
	var b strings.Builder
	fence := ""
	inline := regexp.MustCompile("`[^`]*`|<code>[^<]*</code>")
	for line := range strings.Lines(markdown) {
		line = strings.TrimSuffix(line, "\n")
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			fence = ticks
			b.WriteString("BLOCK\n")
		case fence != "" && len(ticks) >= len(fence) && strings.TrimSpace(strings.TrimLeft(line, "`")) == "":
			fence = ""
		case fence == "":
			b.WriteString(inline.ReplaceAllString(line, "TEXT") + "\n")
		}
	}
	return b.String()
}

// fill puts a text into every string of a report, and one element into every list that is empty.
func fill(r *checker.Report, s string) { fillValue(reflect.ValueOf(r).Elem(), s) }

func fillValue(v reflect.Value, s string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			fillValue(v.Field(i), s)
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			fillValue(v.Index(i), s)
		}
	}
}
