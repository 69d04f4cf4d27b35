// Command gate reads the reports that a run left (EFFECTONCE_OUT=DIR, or scenarios.Out), holds them to a policy, and
// says in its exit code and in a Markdown summary whether a change may go in:
//
//	EFFECTONCE_OUT=$PWD/runs go test -race -count=1 .
//	go build -o gate github.com/effectonce/effectonce/ci/gate
//	./gate -require shop,postgres -min-plans 200 -o "$GITHUB_STEP_SUMMARY" runs
//
// The folder should be new for each run, since what an older one left there is read too, and another one for each
// package, since a report is filed under its test's name alone. Flags come before the folders.
//
// The exit code is 0 if everything passed, 1 for a violation (or a waiver that the policy does not allow), 2 for input
// that cannot be used: no report, one that cannot be read or is of another schema, a required store without one, an
// unknown flag; 3 for an undecided and 4 for an inconclusive report. go run makes 1 of every other code than 0: build
// the command where the difference counts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() { os.Exit(int(run(os.Args[1:], os.Stdout, os.Stderr))) }

// run is the recipe: flags, reports, policy, summary.
func run(args []string, stdout, stderr io.Writer) outcome {
	o, err := parse(args)
	if err != nil {
		// Asked for help too: exit code 0 would say that something passed.
		fmt.Fprintf(stderr, "gate: %s\n", visible(err.Error()))
		o.usage(stderr)
		return unusable
	}
	result := o.policy.judge(read(o.paths))
	for _, problem := range result.unusable {
		fmt.Fprintf(stderr, "gate: %s\n", visible(problem))
	}
	text := result.markdown()
	if _, err := io.WriteString(stdout, text); err != nil {
		fmt.Fprintf(stderr, "gate: write the summary: %v\n", err)
		result.outcome = worse(result.outcome, unusable)
	}
	if err := o.append(text); err != nil {
		fmt.Fprintf(stderr, "gate: -o: %v\n", err)
		result.outcome = worse(result.outcome, unusable)
	}
	return result.outcome
}

type options struct {
	flags  *flag.FlagSet
	policy policy
	out    string
	paths  []string
}

func parse(args []string) (*options, error) {
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // what is wrong is said once, by run
	o := &options{flags: flags}
	flags.Func("require", "`STORE,...` of which each must have a report (the harness's name)", list(&o.policy.require))
	flags.IntVar(&o.policy.minPlans, "min-plans", twoPlans, "how many distinct plans each report must have run; 0 lets in what judged one history or ran one plan again")
	flags.Func("allow-waiver", "`INVARIANT,...` that a store may waive; any other waiver fails", list(&o.policy.allowed))
	flags.Func("promised", "`INVARIANT,...` that every store must promise: one without the capability fails", list(&o.policy.promised))
	flags.StringVar(&o.out, "o", "", "a `FILE` to append the summary to, such as $GITHUB_STEP_SUMMARY")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.paths = flags.Args()
	for _, p := range o.paths {
		if strings.HasPrefix(p, "-") {
			return o, fmt.Errorf("%s stands behind a folder; flags come first", p)
		}
	}
	if len(o.paths) == 0 {
		return o, errors.New("no folder and no report is given")
	}
	return o, o.policy.validate()
}

func (o *options) usage(to io.Writer) {
	fmt.Fprintln(to, "usage: gate [flags] DIR-or-report.json...")
	o.flags.SetOutput(to)
	o.flags.PrintDefaults()
	fmt.Fprintln(to, "exit code: 0 pass, 1 violated, 2 unusable input, 3 undecided, 4 inconclusive")
}

// list makes a flag of names with commas between them. It may be given several times. A flag without a name demands
// nothing where somebody thought it did, so it is refused.
func list(to *[]string) func(string) error {
	return func(value string) error {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name == "" {
				return errors.New("a name is empty")
			}
			*to = append(*to, name)
		}
		return nil
	}
}

// append adds to the file and replaces nothing: a step of a workflow may have written its own summary before.
func (o *options) append(text string) error {
	if o.out == "" {
		return nil
	}
	file, err := os.OpenFile(o.out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(text); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
