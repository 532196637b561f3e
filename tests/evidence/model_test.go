package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestThreatModel: each row of the threat table is attacked by three tests at least, and
// by one with what stops it switched off; all of them exist, and say what they try.
func TestThreatModel(t *testing.T) {
	text, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parseModel(string(text))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := parseTests("../e2e")
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range judge(rows, tests) {
		t.Error(wrong)
	}
}

// judge returns what is wrong with a model.
func judge(rows []row, tests map[string]string) []string {
	var wrong []string
	for i := range 21 {
		if id := fmt.Sprintf("T%d", i+1); i >= len(rows) || rows[i].id != id {
			return append(wrong, "row "+id+" is missing, or not in its place")
		}
	}
	for _, r := range rows {
		if n := len(slices.Compact(slices.Sorted(slices.Values(r.attacks)))); n < 3 {
			wrong = append(wrong, fmt.Sprintf("%s: %d tests attack it, want 3", r.id, n))
		}
		for _, name := range slices.Concat(r.attacks, r.bites) {
			switch says, ok := tests[name]; {
			case !ok:
				wrong = append(wrong, fmt.Sprintf("%s: there is no test %q", r.id, name))
			case says == "":
				wrong = append(wrong, fmt.Sprintf("%s: %s does not say what it tries", r.id, name))
			}
		}
	}
	return wrong
}

// The judge can fail.
func TestJudge(t *testing.T) {
	tests := map[string]string{"TestA": "a", "TestB": "b", "TestC": "c", "TestD": ""}
	model := func(attacks, bites string) []row {
		var text strings.Builder
		for i := range 21 {
			fmt.Fprintf(&text, "| T%d | x | y | %s | %s |\n", i+1, attacks, bites)
		}
		rows, err := parseModel(text.String())
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for _, tt := range []struct {
		rows []row
		want int // things wrong
	}{
		{model("TestA, TestB, TestC", "TestA"), 0},
		{model("TestA, TestB, TestA", "TestC"), 21},
		{model("TestA, TestB, TestX", "TestC"), 21},
		{model("TestA, TestB, TestC", ""), 21},
		{model("TestA, TestB, TestC", "TestD"), 21},
		{model("TestA, TestB, TestC", "TestA")[1:], 1},
	} {
		if wrong := judge(tt.rows, tests); len(wrong) != tt.want {
			t.Errorf("%d things, want %d: %q", len(wrong), tt.want, wrong)
		}
	}
	if _, err := parseModel("| T1 | x | y | z |\n"); err == nil {
		t.Error("a short row is taken")
	}
}

func TestPage(t *testing.T) {
	rows := []row{{"T1", "edit", "mounts", []string{"TestA"}, []string{"TestB"}}}
	results := []results{
		{"pasta", parseResults("=== RUN   TestA\n--- PASS: TestA (1.20s)\n    --- PASS: TestA/x (1.00s)\n--- FAIL: TestB (0.10s)\n")},
		{"inner", parseResults("--- SKIP: TestA (0.00s)\n    a_test.go:1: no | here\n")},
	}
	text, failed := page(rows, map[string]string{"TestA": "tries a", "TestB": "tries b"}, results, "here")
	for _, want := range []string{"## T1: edit", "| TestA | tries a | held | not run |", "| TestB (can it fail?) | tries b | FAILED | not run |", "here"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if !slices.Equal(failed, []string{"TestB with pasta: FAILED"}) {
		t.Errorf("failed: %q", failed)
	}
}
