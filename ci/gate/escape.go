package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What stands in a report came from messages, stores and whoever wrote the file. It reaches the summary in one of two
// ways alone: as a word in a line (word), or as lines in a fenced block (fenced). In both nothing is read as Markdown,
// HTML, a link or a mention, no character moves a terminal's cursor or turns the direction of writing, and no line is
// taken for a command by a runner of workflows that reads what the gate prints ("::error::", "##[error]").

// The bounds keep one hostile field from pushing the rest of the summary out of sight.
const (
	wordAtMost  = 200  // characters
	lineAtMost  = 1000 // characters
	linesAtMost = 200
)

// visible is text on one line: what does not print is written as Go writes it. Bytes that are no UTF-8 too.
func visible(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return strings.ReplaceAll(b.String(), "##[", `#\x23[`)
}

// word is text as code within a line. A code span does, unless the text holds a character that ends one, or one by
// which renderers of tables disagree where a cell ends, in or out of a span; such text is spelt in entities.
func word(s string) string {
	s = cut(visible(s), wordAtMost)
	if s == "" {
		return "-"
	}
	if !strings.ContainsAny(s, "`|\\") && strings.TrimSpace(s) == s {
		return "`" + s + "`"
	}
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != ' ' {
			fmt.Fprintf(&b, "&#%d;", r)
		} else {
			b.WriteRune(r)
		}
	}
	return "<code>" + b.String() + "</code>"
}

// fenced is text as a block of its own, behind a fence that is longer than any in the text.
func fenced(text string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		if len(lines) == linesAtMost {
			lines = append(lines, "... (cut)")
			break
		}
		line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
		line = cut(visible(line), lineAtMost)
		if trimmed := strings.TrimLeft(line, " "); strings.HasPrefix(trimmed, "::") {
			line = `\x3a` + trimmed[1:]
		}
		lines = append(lines, line)
	}
	fence := "```"
	for strings.Contains(strings.Join(lines, "\n"), fence) {
		fence += "`"
	}
	return fence + "text\n" + strings.Join(lines, "\n") + "\n" + fence + "\n"
}

func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "..."
}
